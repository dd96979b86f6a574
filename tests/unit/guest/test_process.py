"""How the guest kills a program and its descendants."""

from __future__ import annotations

import os

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
