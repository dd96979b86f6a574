"""Tests of sandboxes whose programs continue: after a pause to disk, a fork, and a killed server."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

from tests.e2e.server.test_e2b_left import State, listed, state, until
from tests.leftovers import keepers

__all__ = ["state"]
pytestmark = [pytest.mark.container, pytest.mark.long]
CONFIG = '[wall.microvm]\nemulate = true\n[serve]\nready = {}\nwall = "container"\n'
WALLS = (
    pytest.param("gvisor", marks=[pytest.mark.gvisor, pytest.mark.timeout(240)]),
    pytest.param("microvm", marks=[pytest.mark.microvm, pytest.mark.timeout(600)]),
)
TIMEOUT_S = 240
"""Seconds a request may take: a virtual machine may be emulated."""
COUNT = """python3 -c '
import os, time
n = 0
while True:
    n += 1
    open("n.new", "w").write(str(n))
    os.replace("n.new", "n")  # a reader gets the whole number
    time.sleep(0.01)
'"""


@pytest.fixture(params=WALLS)
def template(request: pytest.FixtureRequest) -> str:
    """Return a template whose name requests a wall."""
    return f"base@{request.param}"


def count(sandbox: Sandbox) -> int:
    return int(sandbox.files.read("n")) if sandbox.files.exists("n") else 0


def connects(sandbox: Sandbox) -> bool:
    with suppress(SandboxException):
        sandbox.connect()
        return True
    return False


def hibernated(state: State) -> list[Path]:
    return list((state.folder / "lib/hibernated").glob("*.json"))


def test_a_paused_sandbox_is_on_disk_and_its_programs_continue(state: State, template: str) -> None:
    with state.served(CONFIG) as server:
        sandbox = Sandbox.create(template, timeout=600, request_timeout=TIMEOUT_S, **server.e2b)
        pid = sandbox.commands.run(COUNT, background=True).pid
        until(lambda: count(sandbox) > 5)
        assert sandbox.pause()
        assert len(hibernated(state)) == len(state.records) == 1
        sandbox.connect()
        before = count(sandbox)
        assert before > 5
        until(lambda: count(sandbox) > before)
        assert pid in [each.pid for each in sandbox.commands.list()]
        assert (hibernated(state), state.records) == ([], [])
        [copy] = sandbox.fork(timeout=600, request_timeout=TIMEOUT_S)
        assert isinstance(copy, Sandbox)
        at = count(copy)
        until(lambda: count(copy) > at)
        assert copy.kill()
        sandbox.pause()
        assert sandbox.kill()
        assert (hibernated(state), state.records) == ([], [])


def test_a_paused_sandbox_continues_after_its_server_was_killed(state: State, template: str) -> None:
    with state.served(CONFIG) as server:
        sandbox = Sandbox.create(template, timeout=600, request_timeout=TIMEOUT_S, **server.e2b)
        sandbox.commands.run(COUNT, background=True)
        until(lambda: count(sandbox) > 5)
        sandbox.pause()
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with state.served(CONFIG) as server:
        assert listed(server) == [sandbox.sandbox_id]
        again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        before = count(again)
        until(lambda: count(again) > before)
        assert again.kill()
    assert (hibernated(state), state.records) == ([], [])


def test_a_server_that_leaves_its_sandboxes_leaves_their_programs(state: State, template: str) -> None:
    with state.served(CONFIG + 'shutdown = "leave"\n') as server:
        sandbox = Sandbox.create(template, timeout=600, request_timeout=TIMEOUT_S, **server.e2b)
        sandbox.commands.run(COUNT, background=True)
        until(lambda: count(sandbox) > 5)
    assert len(hibernated(state)) == 1
    assert state.images == set()
    with state.served(CONFIG) as server:
        again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        before = count(again)
        until(lambda: count(again) > before)
        again.pause()
    assert (hibernated(state), state.records) == ([], []), "a server that leaves nothing burns what is paused"


def test_a_paused_sandbox_continues_after_its_keeper_was_killed(state: State, template: str) -> None:
    with state.served(CONFIG) as server:
        sandbox = Sandbox.create(template, timeout=600, request_timeout=TIMEOUT_S, **server.e2b)
        sandbox.commands.run(COUNT, background=True)
        until(lambda: count(sandbox) > 5)
        sandbox.pause()
        [keeper] = keepers(state.folder)
        os.kill(keeper, signal.SIGKILL)
        until(lambda: keeper not in keepers(state.folder))
        assert listed(server) == [sandbox.sandbox_id]
        until(lambda: connects(sandbox))  # the server may not know of the keeper's end yet
        before = count(sandbox)
        until(lambda: count(sandbox) > before)
        assert sandbox.kill()
        assert (hibernated(state), state.records) == ([], [])


@pytest.mark.parametrize("template", WALLS[:1], indirect=True)  # a virtual machine cannot be saved as an image
def test_a_server_that_leaves_its_sandboxes_leaves_the_files_of_those_without_memory(
    state: State, template: str
) -> None:
    with state.served(CONFIG + 'shutdown = "leave"\n') as server:
        sandbox = Sandbox.create(template, timeout=600, request_timeout=TIMEOUT_S, **server.e2b)
        sandbox.files.write("note", "kept")
        sandbox.pause(keep_memory=False)
    assert hibernated(state) == []
    assert len(state.images) == 1
    with state.served(CONFIG) as server:
        again = Sandbox.connect(sandbox.sandbox_id, **server.e2b)
        assert again.files.read("note") == "kept"
        assert again.kill()
