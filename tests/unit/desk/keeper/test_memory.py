"""Tests of saving a desk's memory when the machine has nothing left for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hotdesk.desk.keeper.memory import MemorySaves
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.seam import MemoryWriter
from hotdesk.errors import HotdeskError
from hotdesk.linux import syscalls

DESK = "i1"


class Owner:
    """Records the keeper's messages."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def send(self, message: dict[str, object], *fds: int) -> None:
        self.heard.append(message)

    def refuse(self, number: int, error: HotdeskError) -> None:
        self.heard.append({"re": number, "error": str(error)})


@pytest.fixture
def no_threads() -> Iterator[None]:
    """Ask for stacks that do not fit into the address space, so that no thread can be started."""
    before = threading.stack_size(1 << 47)
    yield
    threading.stack_size(before)


@pytest.fixture
def desk() -> Iterator[TrackedDesk]:
    """Yield a desk whose wall opens the two descriptors of a writer."""
    pipes: list[tuple[int, int]] = []

    def save_memory(*_: object, stop: bool) -> MemoryWriter:
        pipes.extend(syscalls.make_two_pipes())
        return MemoryWriter(0, pipes[0][0], pipes[1][1])

    nothing: Any = lambda *_, **__: None  # noqa: E731 - parts that this test does not need
    wall = SimpleNamespace(
        traits=SimpleNamespace(can_keep_memory=True, start_seconds=1.0), name="gvisor",
        save_memory=save_memory, find_caller=lambda *_: (7, 8),
    )  # fmt: skip
    room = SimpleNamespace(
        desk=DESK, disk=SimpleNamespace(is_durable=True), await_guest=nothing, hang_up=nothing,
        layers=SimpleNamespace(make_memory=nothing, snapshots={}), listener=SimpleNamespace(fileno=lambda: 0),
    )  # fmt: skip
    yield cast(TrackedDesk, SimpleNamespace(
        room=room, wall=wall, spec=Spec(), root=None, paused=False, suspended=False, down="", runtime=0, spare=False,
        busy=False, init=3, record=SimpleNamespace(note=nothing),
    ))  # fmt: skip
    for (report, far_report), (far_go, go) in zip(pipes[::2], pipes[1::2], strict=True):
        for fd in (report, far_report, far_go, go):
            os.close(fd)


@pytest.mark.usefixtures("no_threads")
@pytest.mark.parametrize("stop", [False, True])
def test_a_desk_goes_on_if_no_thread_can_save_its_memory(desk: TrackedDesk, stop: bool) -> None:
    owner, before = Owner(), os.listdir("/proc/self/fd")
    saves = MemorySaves({DESK: desk}, owner, lambda: None, cast(Any, None), lambda *_: None)
    saves.begin(7, desk, stop)
    assert (desk.busy, desk.down) == (False, "")
    assert [message["re"] for message in owner.heard] == [7]
    assert "no thread could be started" in owner.heard[0]["ok"]["failure"]
    assert os.listdir("/proc/self/fd") == before
