"""Tests of sandboxes that a server leaves when it ends, and the next one restores: E2B's own SDK, several servers."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.exceptions import NotFoundException, SandboxException

from hotdesk.api.keys import ApiKeys
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import PATIENCE, Served, wait
from tests.e2e.server.native import client
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]
LEAVE = '[serve]\nshutdown = "leave"\nready = {}\nwall = "container"\n'
BURN = "[serve]\nready = {}\n"


@dataclass(frozen=True, slots=True)
class State:
    """A state directory that servers use one after the other."""

    folder: Path
    key: str

    @contextmanager
    def served(self, config: str = LEAVE) -> Iterator[Served]:
        """Run a server; stop it at the end."""
        (self.folder / "etc/config.toml").write_text(config)
        settings, log = settings_in(self.folder), self.folder / f"serve-{time.monotonic_ns()}.log"
        with log.open("wb") as written:
            argv = [PROGRAM, "serve", "--port", "0"]
            process = subprocess.Popen(argv, stderr=written, env={**environment(settings), **WATCHED})
        try:
            yield Served(wait(process, log), self.key, settings, process, log)
        finally:
            process.terminate()
            assert process.wait(PATIENCE) in (0, -signal.SIGKILL)
            require_no_stalls(log)

    @property
    def records(self) -> list[Path]:
        return list((self.folder / "lib/serve/left").glob("*"))

    @property
    def images(self) -> set[str]:
        told = self.folder / "lib/serve/snapshots.json"
        made = {each["image"] for each in json.loads(told.read_bytes())} if told.exists() else set()
        return {each for each in made if (settings_in(self.folder).images / f"images/{each}.json").exists()}


@pytest.fixture
def state(home: Path) -> State:
    folder = home / f"left-{time.monotonic_ns()}"
    (folder / "etc").mkdir(mode=0o755, parents=True)
    return State(folder, ApiKeys(settings_in(folder).lib / "serve").make("test"))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def listed(server: Served, **wanted: Any) -> list[str]:
    query = SandboxQuery(state=[SandboxState.PAUSED], **wanted)
    return [each.sandbox_id for each in Sandbox.list(query, **server.e2b).next_items()]


def changed(record: Path, **values: object) -> None:
    record.write_text(json.dumps({**json.loads(record.read_bytes()), **values}))


def test_a_sandbox_that_is_left_continues_under_its_id_and_leaves_nothing_once_killed(state: State) -> None:
    with state.served() as server:
        sandbox = Sandbox.create(metadata={"whose": "ours"}, envs={"WORD": "kept"}, timeout=600, **server.e2b)
        sandbox.commands.run("echo on > note; sudo sh -c 'echo root > /opt/note'")
        token, started = sandbox.connection_config.headers, sandbox.get_info().started_at
    assert server.log.read_text().count("hotdesk: sandboxes hibernated: 1") == 1
    [record] = state.records
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    assert len(state.images) == 1
    with state.served() as server:
        assert listed(server) == listed(server, metadata={"whose": "ours"}) == [sandbox.sandbox_id]
        assert listed(server, metadata={"whose": "theirs"}) == []
        again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        assert (again.sandbox_id, again.connection_config.headers) == (sandbox.sandbox_id, token)
        assert again.commands.run("cat note /opt/note; echo $WORD").stdout == "on\nroot\nkept\n"
        info = again.get_info()
        assert (info.state, info.metadata, info.started_at) == (SandboxState.RUNNING, {"whose": "ours"}, started)
        assert state.records == []
        assert again.kill()
        until(lambda: state.images == set())
        with pytest.raises(NotFoundException):
            Sandbox.connect(sandbox.sandbox_id, **server.e2b)
    assert (state.records, state.images) == ([], set())


@pytest.mark.long
def test_every_state_of_a_sandbox_is_left_and_restored_repeatedly(state: State) -> None:
    with state.served() as server:
        kinds = [Sandbox.create(timeout=600, **server.e2b) for _ in range(3)]
        for sandbox in kinds:
            sandbox.files.write("note", sandbox.sandbox_id)
        kinds[0].pause()
        kinds[1].pause(keep_memory=False)
        [copy] = fork(server, kinds[2])
    ids = {each.sandbox_id for each in kinds} | {copy}
    assert (len(state.records), len(state.images)) == (4, 4)
    with state.served() as server:
        assert set(listed(server)) == ids
        with pytest.raises(SandboxException, match="connect to it first"):
            snapshot_of(server, copy)
        assert Sandbox.kill(copy, **server.e2b)
        ids.remove(copy)
        until(lambda: len(state.images) == 3)
    with state.served() as server:
        assert set(listed(server)) == ids
        first = Sandbox.connect(kinds[0].sandbox_id, timeout=600, **server.e2b)
        first.files.write("more", "of it")
    assert (len(state.records), len(state.images)) == (3, 4)
    with state.served(BURN) as server:
        for sandbox in kinds:
            again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
            assert again.files.read("note") == sandbox.sandbox_id
        assert Sandbox.connect(kinds[0].sandbox_id, **server.e2b).files.read("more") == "of it"
        until(lambda: len(state.images) == 3)
    assert state.records == []
    with state.served() as server:
        assert listed(server) == []
        until(lambda: state.images == set())


def fork(server: Served, sandbox: Sandbox) -> list[str]:
    headers = {"X-API-Key": server.key}
    url = f"{server.url}/sandboxes/{sandbox.sandbox_id}/fork"
    made = httpx.post(url, json={"count": 1, "timeout": 600}, headers=headers, timeout=60).raise_for_status().json()
    return [each["sandbox"]["sandboxID"] for each in made]


def snapshot_of(server: Served, sandbox: str) -> None:
    headers = {"X-API-Key": server.key}
    answer = httpx.post(f"{server.url}/sandboxes/{sandbox}/snapshots", json={}, headers=headers, timeout=60)
    if answer.is_error:
        raise SandboxException(answer.json()["message"])


@pytest.mark.long
def test_expired_and_damaged_records_are_removed_without_harm_to_others(state: State) -> None:
    with state.served() as server:
        made = [Sandbox.create(timeout=600, **server.e2b) for _ in range(4)]
        stays = Sandbox.create(timeout=600, **server.e2b, lifecycle={"on_timeout": "pause"})
    folder = state.folder / "lib/serve/left"
    over, old, half, odd = (folder / f"{each.sandbox_id}.json" for each in made)
    changed(over, until=time.time() - 1)
    changed(old, started=time.time() - 90000)
    half.write_bytes(half.read_bytes()[:100])
    changed(odd, image="base")
    changed(folder / f"{stays.sandbox_id}.json", ends=time.time() - 1000)
    (folder / ".half").write_bytes(b"{")
    os.symlink("/etc/passwd", folder / "link.json")
    with state.served() as server:
        assert listed(server) == [stays.sandbox_id]
        until(lambda: len(state.images) == 1)
        assert [each.stem for each in state.records] == [stays.sandbox_id]
        for each in made:
            with pytest.raises(NotFoundException):
                Sandbox.connect(each.sandbox_id, **server.e2b)
        assert Sandbox.kill(stays.sandbox_id, **server.e2b)
        until(lambda: state.images == set())


@pytest.mark.long
def test_a_sandbox_whose_time_ended_while_no_server_ran_is_over(state: State) -> None:
    with state.served() as server:
        sandbox = Sandbox.create(timeout=600, **server.e2b)
        sandbox.set_timeout(30)
        end = time.time() + 30
    [record] = state.records
    assert json.loads(record.read_bytes())["until"] == pytest.approx(end, abs=20)
    changed(record, until=time.time() + 40)
    with state.served() as server:
        assert listed(server) == [sandbox.sandbox_id]
        until(lambda: listed(server) == [] and state.images == set())
        assert state.records == []


@pytest.mark.long
def test_a_restored_sandbox_reaches_what_its_program_requested_under_current_settings(state: State) -> None:
    header = {"transform": {"headers": {"x-pass": "of-the-caller"}}}
    told = {"denyOut": ["0.0.0.0/0"], "allowOut": ["api.example.test"], "rules": {"api.example.test": [header]}}
    body = {"templateID": "base", "timeout": 600, "network": told}
    headers: dict[str, Any] = {"headers": {}, "timeout": 60.0}
    with state.served() as server:
        headers["headers"] = {"X-API-Key": server.key}
        made = httpx.post(f"{server.url}/v2/sandboxes", json=body, **headers).raise_for_status().json()["sandboxID"]
        wide = {**body, "network": {"allowOut": ["0.0.0.0/0"]}}
        assert httpx.post(f"{server.url}/v2/sandboxes", json=wide, **headers).status_code == 400
        shown = httpx.get(f"{server.url}/sandboxes/{made}", **headers).json()
    assert "of-the-caller" in state.records[0].read_text()
    with state.served() as server:
        again = httpx.get(f"{server.url}/sandboxes/{made}", **headers).json()
        assert again["network"] == shown["network"]
        assert "of-the-caller" not in json.dumps(again)
        assert httpx.post(f"{server.url}/sandboxes/{made}/connect", json={}, **headers).status_code == 201
        change = {"denyOut": ["0.0.0.0/0"]}
        assert httpx.put(f"{server.url}/sandboxes/{made}/network", json=change, **headers).status_code == 204
    changed(state.records[0], network={"allowOut": ["0.0.0.0/0"]})
    with state.served() as server:
        refused = httpx.post(f"{server.url}/sandboxes/{made}/connect", json={}, **headers)
        assert (refused.status_code, listed(server)) == (400, [made])
        assert Sandbox.kill(made, **server.e2b)
        until(lambda: state.images == set())


@pytest.mark.long
def test_left_sandboxes_count_as_disk_and_are_invisible_to_other_tenants(state: State) -> None:
    quota = LEAVE + '[serve.quota]\ndisk = "24G"\n'
    other = ApiKeys(settings_in(state.folder).lib / "serve").make("eve", "other")
    with state.served(quota) as server:
        theirs = replace(server, key=other)
        sandbox = Sandbox.create(timeout=600, **server.e2b)
        eves = Sandbox.create(timeout=600, **theirs.e2b)
    with state.served(quota) as server:
        theirs = replace(server, key=other, url=server.url)
        assert (listed(server), listed(theirs)) == ([sandbox.sandbox_id], [eves.sandbox_id])
        with pytest.raises(NotFoundException):
            Sandbox.connect(eves.sandbox_id, **server.e2b)
        with pytest.raises(SandboxException, match="bytes of disk"):
            Sandbox.create(**server.e2b)
        Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        with pytest.raises(SandboxException, match="bytes of disk"):
            Sandbox.create(**server.e2b)
        assert Sandbox.kill(sandbox.sandbox_id, **server.e2b)
        Sandbox.create(**server.e2b).kill()
        assert Sandbox.kill(eves.sandbox_id, **theirs.e2b)
        Sandbox.create(**theirs.e2b).kill()
        until(lambda: state.images == set())


@pytest.mark.long
def test_a_server_that_is_told_to_burn_or_killed_leaves_nothing(state: State) -> None:
    with state.served(BURN) as server:
        sandbox = Sandbox.create(timeout=600, **server.e2b)
    assert (state.records, state.images) == ([], set())
    with state.served() as server:
        assert listed(server) == []
        sandbox = Sandbox.create(timeout=600, **server.e2b)
        server.process.kill()
    until(lambda: os.listdir(state.folder / "run/desks") == [])
    assert (state.records, state.images) == ([], set())
    with state.served() as server:
        with pytest.raises(NotFoundException):
            Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        with client(server) as api:
            assert api.post("/desks", json={}).is_success
    assert (state.records, state.images) == ([], set())
