"""Tests that an error in handling one desk ends this desk only, not the keeper and the desks of all others."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.conftest import settings_in

from hotdesk.desk.keeper import operations
from hotdesk.desk.keeper.keeper import Keeper
from hotdesk.desk.keeper.memory import MemoryOutcome, MemorySaves
from hotdesk.desk.keeper.reboot import Reboots
from hotdesk.desk.keeper.root import Roots
from hotdesk.desk.keeper.socket_buffers import BufferWatch
from hotdesk.desk.keeper.tracked import RootGuest, TrackedDesk, read_clock
from hotdesk.desk.seam import Spec, new_id
from hotdesk.desk.wall.container.wall import ContainerWall
from hotdesk.errors import HotdeskError, KeeperError
from hotdesk.ipc.child import MAX_PACKET_BYTES

BAD, GOOD = "i1", "i2"
UNREADABLE = UnicodeDecodeError("utf-8", b"\xff" * 1_000_000, 0, 1, "invalid start byte")


class Owner:
    """Records the keeper's messages."""

    def __init__(self) -> None:
        self.heard: list[dict[str, object]] = []
        self.refused: dict[int, str] = {}

    def send(self, message: dict[str, object], *fds: int) -> None:
        self.heard.append(message)

    def refuse(self, number: int, error: HotdeskError) -> None:
        self.refused[number] = str(error)


class Burnt(dict[str, str]):
    """Records which desks were burnt, and why."""

    def __call__(self, desk: str, why: str) -> None:
        self[desk] = why


def fails(*_: object, **__: object) -> Any:
    raise UNREADABLE


def desks(bad: object, good: object) -> dict[str, TrackedDesk]:
    return {BAD: cast(TrackedDesk, bad), GOOD: cast(TrackedDesk, good)}


def rising(desk: str, **wall: object) -> SimpleNamespace:
    """Return a desk whose guest for root is up and must be proven."""
    traits, spec = SimpleNamespace(start_seconds=1.0), SimpleNamespace(cpus=1.0)
    wall = {"list_root_flaws": lambda *_: [], "find_caller": lambda *_, **__: (7, 8), **wall}
    room = SimpleNamespace(
        desk=desk, cgroup=SimpleNamespace(holds=lambda _: True, list_pids=set), drop_knocks=lambda: None,
        pin=lambda *_: None, hang_up=lambda: None, listener=SimpleNamespace(fileno=lambda: 0),
    )  # fmt: skip
    root = RootGuest(0, 5, read_clock() + 60, init=9)
    return SimpleNamespace(room=room, root=root, wall=SimpleNamespace(traits=traits, **wall), init=3, spec=spec)


def roots(bad: SimpleNamespace, tmp_path: Path, owner: Owner, burnt: Burnt) -> Roots:
    return Roots(settings_in(tmp_path), desks(bad, rising(GOOD)), set(), owner, burnt)


def test_a_root_guest_that_cannot_be_checked_burns_its_desk_alone(tmp_path: Path) -> None:
    owner, burnt = Owner(), Burnt()
    roots(rising(BAD, list_root_flaws=fails), tmp_path, owner, burnt).turn()
    assert list(burnt) == [BAD]
    assert "internal error of the keeper: UnicodeDecodeError" in burnt[BAD]
    assert len(burnt[BAD]) < MAX_PACKET_BYTES / 10, "what could not be read must not fill the message to the owner"
    assert [message["re"] for message in owner.heard] == [5]


def test_a_root_guest_without_a_caller_ends_and_its_desk_does_not(tmp_path: Path) -> None:
    def vanished(*_: object, **__: object) -> tuple[int, int]:
        raise KeeperError("the desk's file server of gVisor (gofer) is not running")

    owner, burnt, bad = Owner(), Burnt(), rising(BAD, find_caller=vanished)
    bad.root.number = 6
    roots(bad, tmp_path, owner, burnt).turn()
    assert (bad.root, dict(burnt)) == (None, {})
    assert owner.refused == {6: "the desk's file server of gVisor (gofer) is not running"}
    assert [message["re"] for message in owner.heard] == [5]


@pytest.mark.parametrize("failure", [KeeperError("no gofer"), OSError(24, "too many open files"), UNREADABLE])
def test_memory_that_was_saved_in_vain_burns_its_desk_and_answers(failure: Exception) -> None:
    def fail(*_: object) -> tuple[int, int]:
        raise failure

    def make(desk: str, find: object) -> SimpleNamespace:
        ear = SimpleNamespace(fileno=lambda: 0)
        room = SimpleNamespace(desk=desk, layers=SimpleNamespace(snapshots={}), listener=ear)
        room.await_guest = room.hang_up = lambda: None
        record = SimpleNamespace(note=lambda **_: None)
        wall = SimpleNamespace(find_caller=find, traits=SimpleNamespace(start_seconds=1.0))
        return SimpleNamespace(room=room, record=record, wall=wall, init=3, down="")

    owner, burnt = Owner(), Burnt()
    all_desks = desks(make(BAD, fail), make(GOOD, lambda *_: (7, 8)))
    saves = MemorySaves(all_desks, owner, lambda: None, cast(Any, None), burnt)
    saves.outcomes.extend(MemoryOutcome(n, each, False, "", None) for n, each in enumerate(all_desks.values()))
    saves.turn()
    assert list(burnt) == [BAD]
    assert list(owner.refused) == [0], "its caller would wait for an answer"
    assert [message["re"] for message in owner.heard] == [1]


def test_a_desk_that_cannot_be_halted_burns_alone() -> None:
    def make(desk: str, strike: object) -> SimpleNamespace:
        room = SimpleNamespace(desk=desk, cgroup=SimpleNamespace(strike=strike))
        record = SimpleNamespace(note=lambda **_: None)
        return SimpleNamespace(room=room, record=record, down="halting", list_children=set, ends=0.0, number=4)

    owner, burnt = Owner(), Burnt()
    Reboots(desks(make(BAD, fails), make(GOOD, set)), cast(Any, None), owner, burnt, cast(Any, None)).turn()
    assert list(burnt) == [BAD]
    assert owner.heard == [{"re": 4, "ok": {}}]


def test_a_suspended_desk_that_cannot_be_checked_burns_alone(tmp_path: Path) -> None:
    def make(desk: str, listing: object) -> SimpleNamespace:
        for folder in ("root", "w/up"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        room = SimpleNamespace(desk=desk, cgroup=SimpleNamespace(list_unsuspended=listing), folder=tmp_path, base=0)
        return SimpleNamespace(room=room, suspended=True, look=0.0, paused=False, busy=False, down="")

    def count() -> list[int]:
        seen.append(GOOD)
        return []

    burnt, seen = Burnt(), list[str]()
    operations.keep_suspended(desks(make(BAD, fails), make(GOOD, count)).values(), burnt)
    assert (list(burnt), seen) == ([BAD], [GOOD])


def test_a_desk_whose_buffers_cannot_be_measured_burns_alone() -> None:
    def make(measure: object) -> SimpleNamespace:
        cgroup = SimpleNamespace(version=1, measure_unread_bytes=measure)
        return SimpleNamespace(init=3, paused=False, room=SimpleNamespace(cgroup=cgroup))

    burnt = Burnt()
    assert BufferWatch(desks(make(fails), make(lambda: 1 << 40)), burnt).list_flooded() == [GOOD]
    assert list(burnt) == [BAD]


# -- a real keeper ----------------------------------------------------------------------------------------------


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield Keeper(settings_in(tmp_path), theirs)


def tracked(keeper: Keeper, **cgroup: object) -> TrackedDesk:
    """Return a desk of this keeper whose processes have ended, and whose room is empty."""
    desk = new_id()
    calls = {"strike": set, "count_oom_kills": int, "count_refused_forks": int, **cgroup}
    room = SimpleNamespace(desk=desk, cgroup=SimpleNamespace(**calls), clear=list, base=0)
    record = SimpleNamespace(folder=Path("/nowhere") / desk, note=lambda **_: None, leave=lambda: None)
    wall = ContainerWall(keeper.settings)
    found = TrackedDesk(wall, cast(Any, room), cast(Any, record), Spec(), 0, -1, 1, read_clock() + 60, read_clock())
    keeper.desks[desk] = found
    return found


def test_an_exit_that_cannot_be_handled_burns_its_desk_and_the_next_is_handled(keeper: Keeper) -> None:
    bad, good = tracked(keeper, count_oom_kills=fails), tracked(keeper)
    bad.init, good.runtime = 3, 4
    keeper.note_exits(3, -9)
    keeper.note_exits(4, 1)
    assert (keeper.desks, list(keeper.burning.fires)) == ({}, [bad.room.desk])


def test_a_deadline_ends_a_desk_whose_saved_state_cannot_be_removed(keeper: Keeper) -> None:
    bad, good = tracked(keeper), tracked(keeper)
    bad.hard = good.hard = 0.0
    keeper.hibernated.get_path(bad.room.desk).mkdir(parents=True)
    keeper.burn_due()
    assert (keeper.desks, keeper.burning.fires) == ({}, {})


def test_a_desk_that_cannot_be_removed_is_tried_again_and_ends_no_other(keeper: Keeper) -> None:
    bad, good = tracked(keeper, strike=fails), tracked(keeper)
    keeper.burn(bad.room.desk, "asked")
    keeper.burn(good.room.desk, "asked")
    keeper.burning.turn()
    assert list(keeper.burning.fires) == [bad.room.desk]
