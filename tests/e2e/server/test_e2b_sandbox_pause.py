"""Tests of pausing, resuming and forking sandboxes, and of their snapshots, with E2B's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from e2b import AsyncSandbox, Sandbox, SandboxState
from e2b.exceptions import SandboxException, SandboxNotFoundException

from hotdesk.desk.keeper.state import read_facts
from tests.e2e.server.conftest import Served
from tests.e2e.server.test_e2b_sandbox import made, wait_for

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.fixture
def sandbox(server: Served) -> Iterator[Sandbox]:
    with made(server) as found:
        yield found


def test_a_paused_sandbox_keeps_what_runs_in_it(sandbox: Sandbox) -> None:
    boot = sandbox.commands.run(BOOT).stdout
    pid = sandbox.commands.run("sleep 300", background=True).pid
    assert sandbox.pause()
    assert not sandbox.beta_pause()
    assert not sandbox.is_running()
    assert sandbox.get_info().state == SandboxState.PAUSED
    sandbox.connect()
    assert sandbox.commands.run(BOOT).stdout == boot
    assert pid in [each.pid for each in sandbox.commands.list()]


def test_a_sandbox_that_is_paused_without_memory_starts_again_with_its_files(sandbox: Sandbox) -> None:
    boot = sandbox.commands.run(f"echo kept > note; {BOOT}").stdout
    sandbox.commands.run("sleep 300", background=True)
    assert sandbox.pause(keep_memory=False)
    sandbox.connect()
    assert sandbox.commands.run(BOOT).stdout != boot
    assert sandbox.commands.run("cat note").stdout == "kept\n"
    assert sandbox.commands.list() == []


def test_a_sandbox_that_was_paused_with_memory_can_be_rebooted(sandbox: Sandbox) -> None:
    boot = sandbox.commands.run(f"echo kept > note; {BOOT}").stdout
    sandbox.pause()
    sandbox.connect(on_resume="reboot")
    assert sandbox.commands.run(BOOT).stdout != boot
    assert sandbox.commands.run("cat note").stdout == "kept\n"


def test_a_pause_keeps_id_and_token(server: Served, sandbox: Sandbox) -> None:
    sandbox.pause()
    again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
    assert again.sandbox_id == sandbox.sandbox_id
    assert sandbox.commands.run("echo by the old token").exit_code == 0


def test_a_paused_sandbox_can_be_killed_and_then_is_gone(server: Served, sandbox: Sandbox) -> None:
    sandbox.pause()
    assert sandbox.kill()
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id, **server.e2b)


@pytest.mark.long
def test_a_paused_sandbox_outlives_the_end_of_its_time(server: Served) -> None:
    with made(server, timeout=2) as sandbox:
        over = sandbox.get_info().end_at + timedelta(seconds=1)
        sandbox.pause()
        wait_for(lambda: datetime.now(UTC) > over)
        sandbox.connect(timeout=60)
        assert sandbox.is_running()


def test_a_sandbox_is_paused_at_its_timeout_on_request(server: Served) -> None:
    with made(server, timeout=1, lifecycle={"on_timeout": "pause"}) as sandbox:
        wait_for(lambda: sandbox.get_info().state == SandboxState.PAUSED)
        assert not sandbox.is_running()
        assert sandbox.get_info().lifecycle == {"on_timeout": "pause", "auto_resume": False}
        sandbox.connect(timeout=60)
        assert sandbox.commands.run("echo back").stdout == "back\n"


def test_unauthorised_traffic_wakes_no_sandbox(server: Served) -> None:
    with made(server, timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True}) as sandbox:
        sandbox.pause()
        aim = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983", "X-Access-Token": "guessed"}
        assert httpx.get(f"{server.url}/health", headers=aim).status_code == 401
        assert sandbox.get_info().state == "paused"


def test_traffic_wakes_a_sandbox_with_auto_resume(server: Served) -> None:
    with made(server, timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True}) as sandbox:
        boot = sandbox.commands.run(BOOT).stdout
        sandbox.set_timeout(0)
        assert sandbox.get_info().state == SandboxState.PAUSED
        assert sandbox.commands.run(BOOT).stdout == boot
        assert sandbox.get_info().state == SandboxState.RUNNING


def test_a_signed_address_wakes_a_sandbox_with_auto_resume(server: Served) -> None:
    with made(server, timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True}) as sandbox:
        sandbox.files.write("note", "kept")
        url = sandbox.download_url("note")
        named = {"E2b-Sandbox-Id": sandbox.sandbox_id}
        for headers in ({}, named):
            sandbox.pause()
            assert httpx.get(url, headers=headers, timeout=30).text == "kept"
            assert sandbox.get_info().state == SandboxState.RUNNING


def test_a_fork_begins_with_the_files_and_then_changes_independently(server: Served) -> None:
    with made(server, metadata={"line": "one"}, envs={"COLOUR": "red"}) as sandbox:
        sandbox.commands.run("echo first > note")
        forks = sandbox.fork(count=2, timeout=60)
        assert len({sandbox.sandbox_id, *(each.sandbox_id for each in forks if isinstance(each, Sandbox))}) == 3
        for number, each in enumerate(forks):
            assert isinstance(each, Sandbox)
            with each:
                assert each.commands.run(f"cat note; echo {number} > note; echo $COLOUR").stdout == "first\nred\n"
                assert each.get_info().metadata == {"line": "one"}
        assert sandbox.commands.run("cat note").stdout == "first\n"


def test_if_one_fork_cannot_start_none_is_left(server: Served) -> None:
    with made(server, "code-interpreter-v1") as sandbox:
        sandbox.commands.run("printf '#!/bin/sh\\nexit 3\\n' > /usr/local/lib/hotdesk/ready", user="root")
        with pytest.raises(SandboxException, match="500"):
            sandbox.fork(count=2)
        assert [each.sandbox_id for each in Sandbox.list(**server.e2b).next_items()] == [sandbox.sandbox_id]
        desks = {each.name: read_facts(each) or {} for each in (server.settings.run / "desks").iterdir()}
        assert [name for name, told in desks.items() if told.get("image") != "base"] == [sandbox.sandbox_id]
        assert sandbox.commands.run("echo still here").stdout == "still here\n"


def test_a_paused_sandbox_is_not_forked(sandbox: Sandbox) -> None:
    sandbox.pause()
    with pytest.raises(SandboxException, match="paused"):
        sandbox.fork()


def test_a_snapshot_is_a_template_of_its_owners(server: Served, sandbox: Sandbox) -> None:
    sandbox.commands.run("echo kept > note")
    taken = sandbox.create_snapshot()
    assert taken.names == []
    sandbox.commands.run("echo later > note")
    with made(server, taken.snapshot_id) as other:
        assert other.commands.run("cat note").stdout == "kept\n"
        assert Sandbox.delete_snapshot(taken.snapshot_id, **server.e2b)
        assert other.commands.run("cat note").stdout == "kept\n"
    assert not Sandbox.delete_snapshot(taken.snapshot_id, **server.e2b)
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(taken.snapshot_id, **server.e2b)


def test_a_snapshot_is_found_by_its_name_which_a_newer_one_may_take(server: Served, sandbox: Sandbox) -> None:
    sandbox.commands.run("echo one > note")
    first = sandbox.create_snapshot(name="mine")
    assert first.names == [first.snapshot_id] == ["default/mine:default"]
    sandbox.commands.run("echo two > note")
    assert sandbox.create_snapshot(name="mine").snapshot_id == first.snapshot_id
    for name in ("mine", "default/mine", "mine:default", first.snapshot_id):
        with made(server, name) as other:
            assert other.commands.run("cat note").stdout == "two\n"
    assert Sandbox.delete_snapshot("mine", **server.e2b)


@pytest.mark.parametrize("name", ["other/mine", "mine:v2", "../mine", "a b", "-x"])
def test_a_snapshot_cannot_have_an_invalid_name_or_one_of_another_team(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(SandboxException, match="400"):
        sandbox.create_snapshot(name=name)


def test_snapshots_are_listed_by_sandbox_and_name_in_pages(server: Served, sandbox: Sandbox) -> None:
    made_here = [sandbox.create_snapshot().snapshot_id, sandbox.create_snapshot(name="listed").snapshot_id]
    pages = Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id, limit=1, **server.e2b)
    found = [each.snapshot_id for each in pages.next_items()]
    assert pages.has_next
    again = sandbox.list_snapshots(limit=1, next_token=pages.next_token)  # type: ignore[misc]
    found += [each.snapshot_id for each in pages.next_items()]
    assert found == made_here[::-1]
    assert [each.snapshot_id for each in again.next_items()] == found[1:]
    with pytest.raises(SandboxException, match="400"):
        sandbox.list_snapshots(next_token="!!").next_items()  # type: ignore[misc]
    named = Sandbox.list_snapshots(name="listed", **server.e2b).next_items()
    assert [each.names for each in named] == [["default/listed:default"]]
    assert Sandbox.list_snapshots(name="unknown", **server.e2b).next_items() == []
    assert Sandbox.list_snapshots(sandbox_id="i" + "0" * 20, **server.e2b).next_items() == []
    for each in made_here:
        assert Sandbox.delete_snapshot(each, **server.e2b)


def test_no_image_is_left_of_a_deleted_snapshot(server: Served, sandbox: Sandbox) -> None:
    before = set((server.settings.images / "images").iterdir())
    taken = sandbox.create_snapshot()
    (image,) = set((server.settings.images / "images").iterdir()) - before
    with pytest.raises(SandboxException, match="not found"):
        Sandbox.create(image.stem, **server.e2b)
    Sandbox.delete_snapshot(taken.snapshot_id, **server.e2b)
    wait_for(lambda: not image.exists())


@pytest.mark.anyio
async def test_the_asynchronous_sdk_forks_and_snapshots_too(server: Served) -> None:
    async with await AsyncSandbox.create(**server.e2b) as sandbox:
        await sandbox.commands.run("echo kept > note")
        (fork,) = await sandbox.fork(timeout=60)
        assert isinstance(fork, AsyncSandbox)
        assert (await fork.commands.run("cat note")).stdout == "kept\n"
        await fork.kill()
        taken = await sandbox.create_snapshot()
        listed = await AsyncSandbox.list_snapshots(sandbox_id=sandbox.sandbox_id, **server.e2b).next_items()
        assert [each.snapshot_id for each in listed] == [taken.snapshot_id]
        assert await AsyncSandbox.delete_snapshot(taken.snapshot_id, **server.e2b)
