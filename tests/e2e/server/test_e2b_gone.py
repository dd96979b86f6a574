"""Tests of the errors that E2B's own SDK raises for an ended sandbox and for an unknown key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from e2b import (
    AsyncSandbox,
    AuthenticationException,
    CommandHandle,
    PtySize,
    Sandbox,
    SandboxNotFoundException,
    SandboxNotRunningException,
    WatchHandle,
)
from e2b.sandbox.filesystem.filesystem import WriteEntry

from tests.e2e.server.conftest import Served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
SIZE = PtySize(rows=24, cols=80)
NOBODYS = "e2b_" + "0" * 40
MANY = [WriteEntry(path="a", data="a")]
Left = tuple[Sandbox, CommandHandle, WatchHandle]


@pytest.fixture(scope="module")
def left(server: Served) -> Iterator[Left]:
    sandbox = Sandbox.create(**server.e2b)
    handle = sandbox.commands.run("sleep 300", background=True, stdin=True)
    watch = sandbox.files.watch_dir(".")
    sandbox.kill()
    yield sandbox, handle, watch
    handle.disconnect()


@pytest.fixture
def gone(left: Left) -> Sandbox:
    return left[0]


def test_an_ended_sandbox_is_neither_running_nor_killed_again(gone: Sandbox) -> None:
    assert not gone.is_running()
    assert not gone.kill()
    assert gone.list_snapshots().next_items() == []  # type: ignore[misc]


def test_the_control_plane_does_not_find_an_ended_sandbox(gone: Sandbox) -> None:
    with pytest.raises(SandboxNotFoundException):
        gone.get_info()
    with pytest.raises(SandboxNotFoundException):
        gone.get_metrics()
    with pytest.raises(SandboxNotFoundException):
        gone.set_timeout(10)
    with pytest.raises(SandboxNotFoundException):
        gone.connect()
    with pytest.raises(SandboxNotFoundException):
        gone.pause()
    with pytest.raises(SandboxNotFoundException):
        gone.beta_pause()
    with pytest.raises(SandboxNotFoundException):
        gone.fork()
    with pytest.raises(SandboxNotFoundException):
        gone.create_snapshot()
    with pytest.raises(SandboxNotFoundException):
        gone.update_network({})


def test_an_ended_sandbox_runs_no_commands(gone: Sandbox) -> None:
    with pytest.raises(SandboxNotRunningException):
        gone.commands.run("true")
    with pytest.raises(SandboxNotRunningException):
        gone.commands.list()
    with pytest.raises(SandboxNotRunningException):
        gone.commands.kill(1)
    with pytest.raises(SandboxNotRunningException):
        gone.commands.connect(1)
    with pytest.raises(SandboxNotRunningException):
        gone.commands.send_stdin(1, "x")
    with pytest.raises(SandboxNotRunningException):
        gone.commands.close_stdin(1)
    with pytest.raises(SandboxNotRunningException):
        gone.commands.stream_input(1, iter(["x"]))


def test_an_ended_sandbox_has_no_terminals(gone: Sandbox) -> None:
    with pytest.raises(SandboxNotRunningException):
        gone.pty.create(SIZE)
    with pytest.raises(SandboxNotRunningException):
        gone.pty.connect(1)
    with pytest.raises(SandboxNotRunningException):
        gone.pty.kill(1)
    with pytest.raises(SandboxNotRunningException):
        gone.pty.resize(1, SIZE)
    with pytest.raises(SandboxNotRunningException):
        gone.pty.send_stdin(1, b"x")
    with pytest.raises(SandboxNotRunningException):
        gone.pty.stream_input(1, iter([b"x"]))


def test_an_ended_sandbox_has_no_files(gone: Sandbox) -> None:
    with pytest.raises(SandboxNotRunningException):
        gone.files.read("a")
    with pytest.raises(SandboxNotRunningException):
        gone.files.write("a", "a")
    with pytest.raises(SandboxNotRunningException):
        gone.files.write_files(MANY)
    with pytest.raises(SandboxNotRunningException):
        gone.files.list(".")
    with pytest.raises(SandboxNotRunningException):
        gone.files.exists("a")
    with pytest.raises(SandboxNotRunningException):
        gone.files.get_info("a")
    with pytest.raises(SandboxNotRunningException):
        gone.files.make_dir("b")
    with pytest.raises(SandboxNotRunningException):
        gone.files.rename("a", "b")
    with pytest.raises(SandboxNotRunningException):
        gone.files.remove("a")
    with pytest.raises(SandboxNotRunningException):
        gone.files.watch_dir(".")
    with pytest.raises(SandboxNotRunningException):
        gone.get_mcp_token()


def test_handles_of_an_ended_sandbox_report_that_it_ended(left: Left) -> None:
    handle: CommandHandle = left[1]
    watch: WatchHandle = left[2]
    with pytest.raises(SandboxNotRunningException):
        handle.send_stdin("x")
    with pytest.raises(SandboxNotRunningException):
        handle.close_stdin()
    with pytest.raises(SandboxNotRunningException):
        handle.kill()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()
    with pytest.raises(SandboxNotRunningException):
        watch.get_new_events()
    with pytest.raises(SandboxNotRunningException):
        watch.stop()


def test_an_unknown_key_is_reported_by_every_part_of_the_control_plane(server: Served, gone: Sandbox) -> None:
    options = {**server.e2b, "api_key": NOBODYS}
    with pytest.raises(AuthenticationException):
        Sandbox.create(**options)
    with pytest.raises(AuthenticationException):
        Sandbox.list(**options).next_items()
    with pytest.raises(AuthenticationException):
        Sandbox.list_snapshots(**options).next_items()
    with pytest.raises(AuthenticationException):
        Sandbox.delete_snapshot("any", **options)
    with pytest.raises(AuthenticationException):
        gone.kill(api_key=NOBODYS)


# -- asynchronous --------------------------------------------------------------------------------------------------


async def ended(server: Served) -> AsyncSandbox:
    sandbox = await AsyncSandbox.create(**server.e2b)
    assert await sandbox.kill()
    return sandbox


async def test_the_control_plane_does_not_find_an_ended_sandbox_asynchronously(server: Served) -> None:
    gone = await ended(server)
    assert not await gone.is_running()
    assert not await gone.kill()
    assert await gone.list_snapshots().next_items() == []  # type: ignore[misc]
    with pytest.raises(SandboxNotFoundException):
        await gone.get_info()
    with pytest.raises(SandboxNotFoundException):
        await gone.get_metrics()
    with pytest.raises(SandboxNotFoundException):
        await gone.set_timeout(10)
    with pytest.raises(SandboxNotFoundException):
        await gone.connect()
    with pytest.raises(SandboxNotFoundException):
        await gone.pause()
    with pytest.raises(SandboxNotFoundException):
        await gone.beta_pause()
    with pytest.raises(SandboxNotFoundException):
        await gone.fork()
    with pytest.raises(SandboxNotFoundException):
        await gone.create_snapshot()
    with pytest.raises(SandboxNotFoundException):
        await gone.update_network({})


async def test_an_ended_sandbox_runs_no_commands_asynchronously(server: Served) -> None:
    gone = await ended(server)
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.run("true")
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.list()
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.kill(1)
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.connect(1)
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.send_stdin(1, "x")
    with pytest.raises(SandboxNotRunningException):
        await gone.commands.close_stdin(1)
    with pytest.raises(SandboxNotRunningException):
        async with gone.commands.stream_input(1) as given:
            await given.send("x")
    again = gone.commands.stream_input(1)
    with pytest.raises(SandboxNotRunningException):
        await again.close()


async def test_an_ended_sandbox_has_no_terminals_asynchronously(server: Served) -> None:
    gone = await ended(server)
    with pytest.raises(SandboxNotRunningException):
        await gone.pty.create(SIZE, on_data=print)
    with pytest.raises(SandboxNotRunningException):
        await gone.pty.connect(1, on_data=print)
    with pytest.raises(SandboxNotRunningException):
        await gone.pty.kill(1)
    with pytest.raises(SandboxNotRunningException):
        await gone.pty.resize(1, SIZE)
    with pytest.raises(SandboxNotRunningException):
        await gone.pty.send_stdin(1, b"x")
    with pytest.raises(SandboxNotRunningException):
        async with gone.pty.stream_input(1) as given:
            await given.send(b"x")


async def test_an_ended_sandbox_has_no_files_asynchronously(server: Served) -> None:
    gone = await ended(server)
    with pytest.raises(SandboxNotRunningException):
        await gone.files.read("a")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.write("a", "a")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.write_files(MANY)
    with pytest.raises(SandboxNotRunningException):
        await gone.files.list(".")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.exists("a")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.get_info("a")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.make_dir("b")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.rename("a", "b")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.remove("a")
    with pytest.raises(SandboxNotRunningException):
        await gone.files.watch_dir(".", print)
    with pytest.raises(SandboxNotRunningException):
        await gone.get_mcp_token()


async def test_handles_of_an_ended_sandbox_report_that_it_ended_asynchronously(server: Served) -> None:
    sandbox = await AsyncSandbox.create(**server.e2b)
    handle = await sandbox.commands.run("sleep 300", background=True, stdin=True)
    await sandbox.kill()
    with pytest.raises(SandboxNotRunningException):
        await handle.send_stdin("x")
    with pytest.raises(SandboxNotRunningException):
        await handle.close_stdin()
    with pytest.raises(SandboxNotRunningException):
        await handle.kill()
    with pytest.raises(SandboxNotRunningException):
        await handle.wait()


async def test_an_unknown_key_is_reported_asynchronously(server: Served) -> None:
    options = {**server.e2b, "api_key": NOBODYS}
    gone = await ended(server)
    with pytest.raises(AuthenticationException):
        await AsyncSandbox.create(**options)
    with pytest.raises(AuthenticationException):
        await AsyncSandbox.list(**options).next_items()
    with pytest.raises(AuthenticationException):
        await AsyncSandbox.list_snapshots(**options).next_items()
    with pytest.raises(AuthenticationException):
        await AsyncSandbox.delete_snapshot("any", **options)
    with pytest.raises(AuthenticationException):
        await gone.kill(api_key=NOBODYS)
