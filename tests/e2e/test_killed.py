"""Tests of kill -9 at every boundary and a resume: the result is the same, once and whole, and no step is repeated."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue

import pytest

from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.journal import FILE, read
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.keep import Drive
from hotdesk.drive.signing import load_own_public
from hotdesk.event import (
    Event,
    JobBegun,
    JobBurnt,
    JobEnded,
    Kept,
    Observed,
    Planned,
    Preflight,
    Resumed,
    SentBack,
    StepBegun,
    Summed,
)
from hotdesk.job.record.resume_state import read_past
from tests.e2e.killed import Errand, settings_at

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests/e2e/errand"
RESULT = {
    "answer.txt": b"a dozen",
    "list.csv": b"What,Count\nnails,3\nscrews,4\nhooks,5\n",
    "result.txt": b"12\n12\n24\n24\nanswer.txt\ncount.txt\ndouble\ndouble.txt\nstock.txt\ntold.txt\ntwelve\n",
}
LIVE = {"serve"}
HANDS = 3
"""Errands that run at once."""
TURN = int(time.time() // 86400)
"""Another number every day, so that a few days cover every boundary."""


class Nursery:
    """A process that forks for each run of a job."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        env = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)])}
        argv = [sys.executable, "-m", "tests.e2e.killed"]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT
        )

    def live(self, errand: Errand) -> tuple[str, bool]:
        """Run an errand; return its output, and whether it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asdict(errand)) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        return told["said"], told["killed"]


class Nurseries:
    """Several nurseries, each with one errand at a time."""

    def __init__(self, home: Path) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="killed-", dir=home))
        self.all = [Nursery(self.home / f"n{number}") for number in range(HANDS)]
        self.free: SimpleQueue[Nursery] = SimpleQueue()
        for each in self.all:
            self.free.put(each)

    def new(self, **given: object) -> Errand:
        return Errand(tempfile.mkdtemp(dir=self.home), str(FOLDER), **given)  # type: ignore[arg-type]

    def live(self, errand: Errand) -> tuple[str, bool]:
        nursery = self.free.get()
        try:
            return nursery.live(errand)
        finally:
            self.free.put(nursery)

    def each(self, what: object, cases: Sequence[object]) -> None:
        with ThreadPoolExecutor(HANDS) as hands:
            list(hands.map(what, cases))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def nurseries(home: Path) -> Iterator[Nurseries]:
    made = Nurseries(home)
    yield made
    for each in made.all:
        assert each.process.stdin is not None
        each.process.stdin.close()
        each.process.wait(20)
        assert each.process.stdout is not None
        each.process.stdout.close()


@pytest.fixture(scope="module")
def commits(nurseries: Nurseries) -> int:
    return length(nurseries, whole=True)


@pytest.fixture(scope="module")
def events(nurseries: Nurseries) -> int:
    return length(nurseries, whole=False)


def length(nurseries: Nurseries, *, whole: bool) -> int:
    """Carry the brief out once without a kill; return how many commits or events it writes."""
    errand = nurseries.new(whole=whole)
    said, killed = nurseries.live(errand)
    assert (said.split()[0], killed) == ("done", False), said
    check(errand, lives=1)
    return int(said.split()[1])


def job_of(errand: Errand) -> str:
    (job,) = os.listdir(settings_at(Path(errand.home)).lib / "jobs")
    return job


def history(errand: Errand) -> list[Event]:
    return [row.read_event() for row in read(settings_at(Path(errand.home)).lib / "keys" / FILE, job_of(errand))]


def goes_on(errand: Errand) -> Errand:
    return replace(errand, job=job_of(errand), life=0, seconds=0.0)


def check(errand: Errand, lives: int) -> None:
    """Check that a job is over, its result the same and kept once, its journal whole, and nothing left behind."""
    lib, job, events = settings_at(Path(errand.home)).lib, job_of(errand), history(errand)
    drive = Drive(lib / "drive")
    kept = {version.name.partition("/")[2]: version for version in drive.ls(who=OPERATOR)}
    assert {name: drive.find(f"{job}/{name}", who=OPERATOR) for name in kept} == RESULT
    assert [version.number for version in kept.values()] == [1, 1, 1]
    assert verify(lib / "keys" / FILE, load_own_public(lib / "keys")).faults == ()
    counted = Counter(type(event) for event in events)
    assert (counted[JobBegun], counted[JobEnded], counted[JobBurnt]) == (1, 1, 1)
    assert isinstance(events[-1], JobBurnt)
    assert events[-1].left == ()
    assert counted[Resumed] <= lives - 1
    assert sorted(os.listdir(lib / "jobs" / job)) == ["key", "lock", "order", "papers"]
    check_once(events)


def check_once(events: Sequence[Event]) -> None:
    """Check that nothing is done twice that must not be.

    The plan that was tried is not made again. A step is done once, unless it is live or was sent back. No act has two
    outcomes.
    """
    tried = next(place for place, event in enumerate(events) if isinstance(event, Preflight))
    assert not any(isinstance(event, Planned) for event in events[tried:])
    done: set[str] = set()
    for event in events:
        match event:
            case Summed():
                assert event.step not in done
                done.add(event.step)
            case SentBack():
                done.discard(event.step)
            case StepBegun(step=step) if step in done:
                assert step in LIVE
    acts = Counter(event.act for event in events if isinstance(event, Observed))
    assert set(acts.values()) == {1}
    versions = {(event.path, event.version) for event in events if isinstance(event, Kept)}
    assert versions == {(name, 1) for name in RESULT}


def die_and_go_on(nurseries: Nurseries, errand: Errand) -> None:
    said, killed = nurseries.live(errand)
    assert killed, said
    finish(nurseries, errand, lives=2)


def finish(nurseries: Nurseries, errand: Errand, lives: int) -> None:
    """Resume a job until it is over; a job that was already over must say so."""
    ended = read_past(settings_at(Path(errand.home)).lib / "keys" / FILE, job_of(errand)).summary.ended
    said, killed = nurseries.live(goes_on(errand))
    assert not killed
    assert ("has ended: done" in said) if ended else said.startswith("done"), said
    assert "left" not in said
    check(errand, lives)


def test_killed_after_any_commit_a_job_continues_to_the_same_result(nurseries: Nurseries, commits: int) -> None:
    lives = range(1 + TURN % 20, commits + 1, 20)
    nurseries.each(lambda life: die_and_go_on(nurseries, nurseries.new(life=life)), lives)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_after_every_commit_a_job_continues_to_the_same_result(nurseries: Nurseries, commits: int) -> None:
    nurseries.each(lambda life: die_and_go_on(nurseries, nurseries.new(life=life)), range(1, commits + 1))


@pytest.mark.long
def test_killed_during_an_unfinished_commit_a_job_still_continues(nurseries: Nurseries, events: int) -> None:
    lives = range(1 + TURN % 15, events + 1, 15)
    nurseries.each(lambda life: die_and_go_on(nurseries, nurseries.new(life=life, whole=False)), lives)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_after_every_event_a_job_still_continues(nurseries: Nurseries, events: int) -> None:
    lives = range(1, events + 1)
    nurseries.each(lambda life: die_and_go_on(nurseries, nurseries.new(life=life, whole=False)), lives)


@pytest.mark.long
@pytest.mark.parametrize("life", [24, 31])
def test_a_job_that_is_killed_repeatedly_reaches_its_end(nurseries: Nurseries, life: int) -> None:
    errand, lives = nurseries.new(life=life), 1
    said, killed = nurseries.live(errand)
    while killed and lives < 40:
        said, killed = nurseries.live(replace(goes_on(errand), life=life))
        lives += 1
    assert "done" in said, said
    check(errand, lives)


def die_twice(nurseries: Nurseries, first: int, second: int) -> bool:
    """Kill a job, resume it, kill it, and resume it; return whether it ran long enough to be killed twice."""
    errand = nurseries.new(life=first)
    assert nurseries.live(errand)[1]
    said, killed = nurseries.live(replace(goes_on(errand), life=second))
    if killed:
        finish(nurseries, errand, lives=3)
    else:
        assert "done" in said, said
        check(errand, lives=2)
    return killed


@pytest.mark.parametrize(("first", "second"), [(45, 2), pytest.param(9, 4, marks=pytest.mark.long)])
def test_a_job_that_is_killed_twice_continues_with_its_plan(nurseries: Nurseries, first: int, second: int) -> None:
    errand = nurseries.new(life=first)
    assert nurseries.live(errand)[1]
    assert nurseries.live(replace(goes_on(errand), life=second))[1]
    finish(nurseries, errand, lives=3)
    counted = Counter(type(event) for event in history(errand))
    assert (counted[Planned], counted[Preflight], counted[Resumed]) == (1, 1, 2)


@pytest.mark.parametrize("first", [45, pytest.param(62, marks=pytest.mark.long)])
@pytest.mark.long
def test_killed_right_after_it_was_resumed_a_job_continues(nurseries: Nurseries, commits: int, first: int) -> None:
    lives = [1, 2, 3, 4 + TURN % 12]
    nurseries.each(lambda second: die_twice(nurseries, min(first, commits), second), lives)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", [9, 30, 50, 60, 70])
def test_killed_at_every_boundary_after_a_resume_a_job_continues(
    nurseries: Nurseries, commits: int, first: int
) -> None:
    nurseries.each(lambda second: die_twice(nurseries, first, second), range(1, commits + 1))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_at_any_moment_a_job_continues_to_the_same_result(nurseries: Nurseries) -> None:
    chance = random.Random(TURN)

    def once(seconds: float) -> None:
        errand = nurseries.new(seconds=seconds)
        said, killed = nurseries.live(errand)
        jobs = settings_at(Path(errand.home)).lib / "jobs"
        if killed and jobs.exists() and any((folder / "order").exists() for folder in jobs.iterdir()):
            said, killed = nurseries.live(goes_on(errand))
        elif killed:
            return  # the job did not exist yet
        assert not killed
        assert "done" in said, said
        check(errand, lives=2)

    nurseries.each(once, [chance.uniform(0.02, 3.0) for _ in range(100)])
