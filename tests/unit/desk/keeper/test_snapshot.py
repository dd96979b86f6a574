"""Tests of slow snapshots: only the caller waits for them."""

from __future__ import annotations

import os
import select
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from hotdesk.desk.keeper.snapshot import KeeperSnapshots, require_idle
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.errors import DeskError, HotdeskError


class Owner:
    """Records the keeper's messages."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def send(self, message: dict[str, object], *fds: int) -> None:
        self.heard.append(message)

    def refuse(self, number: int, error: HotdeskError) -> None:
        self.heard.append(error)


class Slow:
    """Layers whose snapshot takes until the test releases it."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.failure: Exception | None = None
        self.snapshots: dict[str, str] = {}

    def snapshot(self) -> str:
        assert self.go.wait(10)
        if self.failure is not None:
            raise self.failure
        return "1"


class Cgroup:
    """Reports a freeze without doing one."""

    def __init__(self) -> None:
        self.stopped = False

    def freeze(self, frozen: bool) -> None:
        self.stopped = frozen

    def is_frozen(self) -> bool:
        return self.stopped


def desk(layers: Slow, cgroup: Cgroup) -> TrackedDesk:
    room = SimpleNamespace(desk="i1", layers=layers, cgroup=cgroup)
    record = SimpleNamespace(note=lambda **facts: None)
    held = SimpleNamespace(room=room, record=record, root=None, paused=False, down="", runtime=0, busy=False)
    return cast(TrackedDesk, held)


@pytest.mark.parametrize("failure", [None, OSError(28, "full"), DeskError("too many"), ValueError("strange")])
def test_a_slow_snapshot_blocks_only_its_own_desk(failure: Exception | None) -> None:
    layers, cgroup, owner = Slow(), Cgroup(), Owner()
    layers.failure = failure
    held = desk(layers, cgroup)
    taking = KeeperSnapshots({"i1": held}, owner, lambda: None)
    ear, taking.wake = os.pipe()
    taking.begin(7, held)
    assert cgroup.stopped
    taking.turn()
    assert owner.heard == []
    with pytest.raises(DeskError, match="try again"):
        require_idle(held)
    layers.go.set()
    assert select.select([ear], [], [], 10)[0]
    taking.turn()
    require_idle(held)
    assert cgroup.is_frozen() is False
    assert owner.heard == [{"re": 7, "ok": {"snapshot": "1"}}] if failure is None else len(owner.heard) == 1
    assert failure is None or isinstance(owner.heard[0], HotdeskError)
    os.close(ear)
    os.close(taking.wake)


def test_a_desk_that_burnt_meanwhile_is_not_thawed() -> None:
    layers, cgroup, owner = Slow(), Cgroup(), Owner()
    held = desk(layers, cgroup)
    desks = {"i1": held}
    taking = KeeperSnapshots(desks, owner, lambda: None)
    ear, taking.wake = os.pipe()
    taking.begin(7, held)
    desks.clear()
    layers.go.set()
    assert select.select([ear], [], [], 10)[0]
    taking.turn()
    require_idle(held)
    assert cgroup.stopped
    os.close(ear)
    os.close(taking.wake)
