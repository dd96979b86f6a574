"""Tests of a job's state from its events: what is finished, lost or unknown, and how it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest

from hotdesk.event import (
    Acted,
    Amended,
    Certified,
    Checkpointed,
    Decided,
    Event,
    Forgotten,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobEvent,
    JobPaused,
    Kept,
    MemoryDropped,
    MemoryKept,
    MemoryOffered,
    MemoryStaged,
    Observed,
    Pending,
    Planned,
    Preflight,
    Resumed,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    Verified,
    VisionAsked,
)
from hotdesk.job.record.resume_state import ResumeState

JOB = "i" + "a1b2" * 5
BEGUN = JobBegun(JOB, "compare", "ab" * 32, "recorded script 1a2b", "uid 0 pid 1")
ONE, TWO = StepBegun(JOB, "one", "do"), StepBegun(JOB, "two", "do")
AGAIN = StepBegun(JOB, "one", "do", attempt=2)
FAILED = StepEnded(JOB, "one", "failed", "it gave up")
AMID = Checkpointed(JOB, "one", 1, "cc" * 32, 9, amid=True)
RESUMED = Resumed(JOB, "uid 0 pid 2")
LIVE = StepBegun(JOB, "one", "serve")


def thought(turn: int, step: str = "one") -> Thought:
    return Thought(JOB, step, turn, "m", f"t{turn}", 10, 5, 1, 100, 3, 0.5)


def act(number: int, step: str = "one", tool: str = "shell") -> Acted:
    return Acted(JOB, step, number, tool, f"a{number}")


def seen(number: int, step: str = "one") -> Observed:
    return Observed(JOB, step, number, "done", 3, f"o{number}")


def turn(number: int, step: str = "one") -> tuple[Event, ...]:
    return thought(number, step), act(number, step), seen(number, step)


def finished(step: str, acts: int = 1, sha256: str = "dd" * 32) -> tuple[Event, ...]:
    return Checkpointed(JOB, step, acts, sha256, 9), Summed(JOB, step, "s"), StepEnded(JOB, step, "done")


def fold(*events: Event | Sequence[Event]) -> ResumeState:
    past, at = ResumeState(JOB), 1000
    for each in events:
        for event in each if isinstance(each, tuple) else (each,):
            past.take(event, at)
            at += 1
    return past


def numbers(acts: Sequence[Acted]) -> list[int]:
    return [each.act for each in acts]


EVERY: tuple[JobEvent, ...] = (
    BEGUN,
    Planned(JOB, "d", ("one",), "p"),
    Preflight(JOB, "d", ("ok",), ()),
    Pending(JOB, "1", "plan", "d", "c", 2000),
    Decided(JOB, "1", "d", "approved", "uid 0 pid 1"),
    StepBegun(JOB, "desk", "open", "desk-1"),
    ONE,
    thought(1),
    act(1),
    VisionAsked(JOB, "one", "eyes", "l1", "done", 20, 2, 0, 0, 100, 3, 0.25),
    seen(1),
    AMID,
    FAILED,
    RolledBack(JOB, "one", 1),
    Amended(JOB, "e", ("one", "two"), "q"),
    JobPaused(JOB, "it was asked to stop"),
    RESUMED,
    *finished("two"),  # type: ignore[arg-type]
    StepEnded(JOB, "desk", "done", "burnt", "desk-1"),
    Verified(JOB, "desk-2", "r.txt", "ee" * 32, "xlsx", "passed", ()),
    SentBack(JOB, "three", "r.txt", "ee" * 32, "p"),
    Certified(JOB, "r.txt", "ee" * 32, "cc" * 32),
    Kept(JOB, "r.txt", "ee" * 32, 4),
    MemoryOffered(JOB, "orders", ("memory/orders/files/a.py@1",), ("ee" * 32,)),
    MemoryStaged(JOB, "one", "file", "a.py", "ee" * 32, 4, "p"),
    MemoryKept(JOB, "orders", "file", "a.py", "ee" * 32, 4, 2, "one"),
    MemoryDropped(JOB, "orders", "b.py", "it is too old"),
    JobEnded(JOB, "done"),
    JobBurnt(JOB, (), (), ()),
    Forgotten(JOB, "uid 0 pid 1"),
)


def test_every_event_of_a_job_has_its_place() -> None:
    past = fold(*EVERY)
    assert {type(event).__name__ for event in EVERY} == {kind.__name__ for kind in get_args(JobEvent)} - {
        "DriveChanged",
        "VaultChanged",
        "KeyChanged",
        "ImageSigned",
        "VolumeChanged",
    }
    job = past.summary
    assert JobBegun(JOB, job.goal, job.brief, job.brain, job.by) == BEGUN
    assert (past.planned, job.preflight, past.amended) == (EVERY[1], EVERY[2], EVERY[14])
    assert job.waiting.decided["1"].answer == "approved"
    assert past.tries == [("one", 1, "it gave up")]
    assert past.finished == {"two": "s"}
    assert job.course.desks == {"desk-1": True}
    assert ([each.path for each in job.checks], list(past.stored)) == (["r.txt"], ["r.txt"])
    assert (past.offered, past.staged["file", "a.py"], past.remembered["file", "a.py"]) == EVERY[-7:-4]
    assert (job.ended, job.receipt, job.paused) == (EVERY[-3], EVERY[-2], None)
    assert (past.spent.tokens, past.spent.dollars, past.spent.acts, past.spent.replies) == (38, 0.75, 1, 2)


@pytest.mark.parametrize(
    ("events", "current", "unknown", "lost", "goes_on"),
    [
        pytest.param((BEGUN,), "", [], [], False, id="nothing was begun"),
        pytest.param((ONE,), "one", [], [], False, id="a step was begun"),
        pytest.param((ONE, thought(1)), "one", [], [], False, id="it was thought"),
        pytest.param((ONE, thought(1), act(1)), "one", [1], [1], False, id="an act was begun"),
        pytest.param((ONE, turn(1)), "one", [], [1], False, id="an act was made"),
        pytest.param((ONE, thought(1), act(1), act(2), seen(2)), "one", [1], [1, 2], False, id="one of two"),
        pytest.param((ONE, turn(1), finished("one")), "", [], [], False, id="a step was finished"),
        pytest.param((ONE, turn(1), FAILED), "", [], [], False, id="an attempt failed"),
        pytest.param((ONE, turn(1), FAILED, AGAIN), "one", [], [], False, id="the next began"),
        pytest.param((ONE, turn(1), AMID), "one", [], [], True, id="it was kept amid"),
        pytest.param((ONE, turn(1), AMID, turn(2)), "one", [], [2], True, id="and went on"),
        pytest.param((ONE, turn(1), AMID, thought(2), act(2)), "one", [2], [2], True, id="and was killed"),
        pytest.param(
            (ONE, turn(1), AMID, thought(2), act(2), RESUMED), "one", [2], [2], True, id="and again before it began"
        ),
        pytest.param(
            (ONE, turn(1), AMID, thought(2), act(2), RESUMED, ONE), "one", [], [], True, id="and after it began"
        ),
        pytest.param((ONE, turn(1), AMID, FAILED, AGAIN), "one", [], [], False, id="kept amid an attempt that failed"),
        pytest.param(
            (ONE, thought(1), act(1, tool="ask_person")), "one", [1], [], False, id="a question is no lost work"
        ),
        pytest.param(
            (ONE, turn(1), finished("one"), TWO, turn(2, "two"), thought(3, "two"), act(3, "two"), RESUMED, LIVE,
             thought(4), act(4)), "two", [3], [2, 3], False, id="a live step is taken again",
        ),
        pytest.param(
            (ONE, turn(1), finished("one"), TWO, turn(2, "two"), RESUMED, LIVE, turn(3), StepEnded(JOB, "one", "done")),
            "two", [], [2], False, id="and done",
        ),
    ],
)  # fmt: skip
def test_the_state_of_a_job_follows_from_its_events(
    events: tuple[Event, ...], current: str, unknown: list[int], lost: list[int], goes_on: bool
) -> None:
    past = fold(*events)
    assert (past.current, past.goes_on) == (current, goes_on)
    assert (numbers(past.unknown), numbers(past.lost)) == (unknown, lost)


def test_only_what_the_kept_workspace_has_is_held() -> None:
    past = fold(ONE, turn(1), AMID, turn(2), thought(3), act(3))
    assert [each.thought.turn for each in past.saved_turns] == [1]
    past = fold(ONE, turn(1), turn(2))
    assert past.saved_turns == []


def test_an_act_of_a_step_taken_again_is_surfaced_and_is_not_the_next_steps() -> None:
    past = fold(ONE, turn(1), finished("one"), TWO, RESUMED, LIVE, thought(2), act(2))
    assert past.surfaced == ("2 shell",)
    assert (past.current, past.unknown) == ("two", [])


def test_a_failed_attempt_voids_what_was_kept_during_it() -> None:
    before = finished("zero", sha256="ee" * 32)
    past = fold(StepBegun(JOB, "zero", "do"), before, ONE, turn(1), AMID, FAILED)
    assert past.checkpoint == before[0]
    assert past.kept_before == before[0]


def test_waiting_time_is_not_working_time() -> None:
    past = ResumeState(JOB)
    for event, at in ((BEGUN, 0), (ONE, 1000), (RESUMED, 900_000), (act_of_two := thought(1), 901_000)):
        past.take(event, at)
    assert isinstance(act_of_two, Thought)
    assert past.spent.ms == 1000


def test_a_job_that_is_stopped_while_it_waits_for_a_person_is_not_charged_for_the_wait() -> None:
    past = ResumeState(JOB)
    question = Pending(JOB, "question", "question", "d", "p", 10**9)
    waited: tuple[tuple[Event, int], ...] = (
        (BEGUN, 1),
        (ONE, 1001),
        (question, 2001),
        (AMID, 62_001),  # its desks are given back
        (StepEnded(JOB, "desk", "done"), 65_001),
        (JobPaused(JOB, "stopped"), 3_600_001),
        (RESUMED, 9_000_001),
    )
    for event, at in waited:
        past.take(event, at)
    assert past.spent.ms == 2000
    past.take(thought(1), 9_001_001)  # the worker goes on without asking again
    past.take(act(1), 9_001_002)
    past.take(seen(1), 9_001_502)
    assert past.spent.ms == 3501


def test_the_time_of_a_question_during_which_the_job_works_on_is_working_time() -> None:
    past = ResumeState(JOB)
    cohort, pilot = (Pending(JOB, kind, kind, "d", "p", 10**9) for kind in ("cohort", "pilot"))
    decided = Decided(JOB, "cohort", "d", "approved", "uid 0 pid 1")
    parts: tuple[tuple[int, tuple[tuple[Event, int], ...]], ...] = (
        (50_001, ((BEGUN, 1), (cohort, 1001), (decided, 50_001), (ONE, 50_002))),
        (51_001, ((pilot, 51_001), (decided, 80_000), (replace(decided, id="pilot"), 90_000), (ONE, 90_001))),
        (52_001, ((JobPaused(JOB, "stopped"), 91_000), (decided, 95_000), (RESUMED, 900_000), (ONE, 900_001))),
    )
    for spent, events in parts:
        for event, at in events:
            past.take(event, at)
        assert past.spent.ms == spent
