"""Tests of how the guest kills a program and its descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hotdesk_guest import process

LEADER = 41
CHILD = 40  # numbers wrap around: a child may have the smaller one


def test_a_leader_is_killed_before_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = {LEADER: os.getpid(), CHILD: LEADER}
    killed: list[int] = []

    def kill(pid: int, number: int) -> None:
        if pid not in alive:
            raise ProcessLookupError
        del alive[pid]
        killed.append(pid)

    monkeypatch.setattr(process, "_survey", lambda: (dict(alive), dict.fromkeys(alive, LEADER)))
    monkeypatch.setattr("posix.kill", kill)
    process.kill_tree(LEADER, "mark", alive=True)
    assert killed == [LEADER, CHILD]


def test_a_leader_that_has_ended_and_was_not_waited_for_is_not_killed_again_and_again() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert process.kill_tree(child.pid, "mark", alive=True) == 2
    finally:
        child.wait()


def test_a_leader_whose_first_thread_has_ended_is_killed() -> None:
    code = "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start()"
    code += "; print(flush=True); ctypes.CDLL(None).pthread_exit(0)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with open(f"/proc/{child.pid}/stat") as file:
            while file.seek(0) or file.read().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
        process.kill_tree(child.pid, "mark", alive=True)
        assert child.wait() == -signal.SIGKILL
