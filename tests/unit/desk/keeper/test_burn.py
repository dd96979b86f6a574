"""Tests of burning desks step by step: one that resists is reported, tried again, and delays no other."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from hotdesk.config import Config
from hotdesk.desk.keeper import burn
from hotdesk.desk.keeper.burn import Burning, Fire
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.desk.seam import Spec, new_id
from hotdesk.desk.wall.container.wall import ContainerWall

pytestmark = pytest.mark.timeout(30)


@dataclass
class Leash:
    """A cgroup whose processes survive some kills."""

    strikes: int

    def strike(self) -> set[int]:
        self.strikes -= 1
        return {4711} if self.strikes >= 0 else set()


@dataclass
class Surroundings:
    """A room whose removal fails some times."""

    desk: str
    cgroup: Leash
    tries: int = 0
    base: int = 0
    broken: bool = False
    pause: float = 0.0

    def clear(self) -> list[str]:
        if self.broken:
            raise OSError("the disk is gone")
        time.sleep(self.pause)
        self.tries -= 1
        return ["a mount is busy"] if self.tries >= 0 else []


@dataclass
class Note:
    """A desk's record."""

    folder: Path
    told: list[dict[str, object]] = field(default_factory=list)
    left: bool = False

    def note(self, **facts: object) -> None:
        self.told.append(facts)

    def leave(self) -> None:
        self.left = True


@dataclass
class Ended:
    """Records what the owner was told."""

    told: list[tuple[str, str, list[str], list[int]]] = field(default_factory=list)

    def __call__(self, fire: Fire, left: list[str]) -> None:
        self.told.append((fire.tracked.room.desk, fire.why, left, list(fire.numbers)))


@pytest.fixture
def ended() -> Ended:
    return Ended()


@pytest.fixture
def fires(tmp_path: Path, ended: Ended) -> Burning:
    return Burning(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images"), ended)


def held(tmp_path: Path, strikes: int = 0, tries: int = 0, broken: bool = False, init: int = 0) -> TrackedDesk:
    desk = new_id()
    room = Surroundings(desk, Leash(strikes), tries, broken=broken)
    wall = ContainerWall(Config(run=tmp_path, lib=tmp_path, images=tmp_path))
    return TrackedDesk(wall, room, Note(tmp_path / desk), Spec(), 0, -1, 1, 0.0, 0.0, init=init)  # type: ignore[arg-type]


def turn_until(fires: Burning, ended: Ended, count: int, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while len(ended.told) < count and time.monotonic() < end:
        time.sleep(min(0.05, fires.compute_wait() or 0.0))
        fires.turn()
    assert len(ended.told) == count


def test_a_desk_that_does_not_resist_is_gone_at_once(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    desk = held(tmp_path)
    fires.begin(desk, "asked", 7)
    assert ended.told == [(desk.room.desk, "asked", [], [7])]
    assert cast(Note, desk.record).left
    assert fires.compute_wait() is None


def test_a_desk_that_resists_for_a_while_is_killed_again_and_removed(
    fires: Burning, ended: Ended, tmp_path: Path
) -> None:
    desk = held(tmp_path, strikes=3, tries=3)
    fires.begin(desk, "deadline")
    assert ended.told == []
    turn_until(fires, ended, 1)
    assert ended.told == [(desk.room.desk, "deadline", [], [])]


def test_concurrent_callers_are_answered_together(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    desk = held(tmp_path, strikes=5)
    fires.begin(desk, "asked", 1)
    assert fires.wait_for(desk.room.desk, 2)
    assert not fires.wait_for(new_id(), 3)
    turn_until(fires, ended, 1)
    assert ended.told[0][3] == [1, 2]


def test_a_desk_that_resists_delays_no_other(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    stubborn, easy = held(tmp_path, strikes=10_000), held(tmp_path)
    fires.begin(stubborn, "asked", 1)
    start = time.process_time()
    fires.begin(easy, "asked", 2)
    assert [told[3] for told in ended.told] == [[2]]
    assert time.process_time() - start < 0.5
    assert 0 <= (fires.compute_wait() or 0.0) <= burn.MAX_POLL_INTERVAL_S


def test_many_that_end_together_take_turns_with_everything_else(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    desks = [held(tmp_path, strikes=1) for _ in range(8)]
    for desk in desks:
        cast(Surroundings, desk.room).pause = 2 * burn.TURN_S
        fires.begin(desk, "asked")
    time.sleep(2 * burn.MIN_POLL_INTERVAL_S)
    for count in range(1, len(desks) + 1):
        fires.turn()
        assert [told[0] for told in ended.told] == [desk.room.desk for desk in desks[:count]]


def test_a_desk_that_resists_for_long_is_reported_once_and_retried(
    fires: Burning, ended: Ended, tmp_path: Path
) -> None:
    desk = held(tmp_path, tries=1000)
    fires.begin(desk, "asked", 1)
    fire = fires.fires[desk.room.desk]
    fire.since -= burn.STUCK_AFTER_S
    fire.look = 0.0
    fires.turn()
    assert ended.told == [(desk.room.desk, "asked", ["a mount is busy"], [1])]
    assert cast(Note, desk.record).told == [{"state": "stuck", "why": "asked", "left": ["a mount is busy"]}]
    assert not fires.wait_for(desk.room.desk, 2), "a request would wait for ever"
    cast(Surroundings, desk.room).tries = 0
    fire.look = 0.0
    fires.turn()
    assert (len(ended.told), fires.fires, cast(Note, desk.record).left) == (1, {}, True)


def test_an_exit_is_awaited_and_handled_at_once(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    desk = held(tmp_path, init=99)
    fires.begin(desk, "asked", 1)
    assert ended.told == [], "its first process is a zombie with the desk's user id until it is reaped"
    fires.fires[desk.room.desk].look += 100
    fires.note_exit(98)
    fires.turn()
    assert ended.told == []
    fires.note_exit(99)
    fires.turn()
    assert len(ended.told) == 1


def test_a_failed_removal_is_retried_on_the_next_round(fires: Burning, ended: Ended, tmp_path: Path) -> None:
    desk = held(tmp_path, broken=True)
    fires.begin(desk, "asked", 1)
    assert desk.room.desk in fires.fires
    cast(Surroundings, desk.room).broken = False
    turn_until(fires, ended, 1)
