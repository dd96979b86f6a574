"""Tests of sandboxes behind gVisor whose programs continue: after a pause to disk, a fork, and a killed server."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from e2b import Sandbox

from tests.e2e.server.test_e2b_left import State, listed, state, until

__all__ = ["state"]
pytestmark = [pytest.mark.container, pytest.mark.gvisor, pytest.mark.long, pytest.mark.timeout(240)]
CONFIG = '[serve]\nready = {}\nwall = "gvisor"\n'
COUNT = 'python3 -c \'import time; n = 0\nwhile True:\n n += 1; open("n", "w").write(str(n)); time.sleep(0.01)\''


def count(sandbox: Sandbox) -> int:
    return int(sandbox.files.read("n") or 0)


def hibernated(state: State) -> list[Path]:
    return list((state.folder / "lib/hibernated").glob("*.json"))


def test_a_paused_sandbox_is_on_disk_and_its_programs_continue(state: State) -> None:
    with state.served(CONFIG) as server:
        sandbox = Sandbox.create(timeout=600, **server.e2b)
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
        [copy] = sandbox.fork(timeout=60)
        assert isinstance(copy, Sandbox)
        at = count(copy)
        until(lambda: count(copy) > at)
        assert copy.kill()
        sandbox.pause()
        assert sandbox.kill()
        assert (hibernated(state), state.records) == ([], [])


def test_a_paused_sandbox_continues_after_its_server_was_killed(state: State) -> None:
    with state.served(CONFIG) as server:
        sandbox = Sandbox.create(timeout=600, **server.e2b)
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


def test_a_server_that_leaves_its_sandboxes_leaves_their_programs(state: State) -> None:
    with state.served(CONFIG + 'shutdown = "leave"\n') as server:
        sandbox = Sandbox.create(timeout=600, **server.e2b)
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
