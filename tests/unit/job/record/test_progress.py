"""Tests of a job's progress: its steps, cost, time, and acts with an unknown outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.event import (
    Acted,
    Amended,
    Decided,
    Event,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Observed,
    Planned,
    Resumed,
    RolledBack,
    StepBegun,
    StepEnded,
    Thought,
    VisionAsked,
)
from hotdesk.job.record.progress import Cost, Progress
from hotdesk.job.record.receipt import fold_timed

JOB = "i1"
BEGUN = JobBegun(JOB, "compare", "cd" * 32, "recorded script 1a2b3c4d")
PLANNED = Planned(JOB, "ab" * 32, ("read", "write"), "p")


def thought(step: str, model: str, dollars: float) -> Thought:
    return Thought(JOB, step, 1, model, "p", 10, 5, 3, 1000, 20, dollars)


def course_of(*events: tuple[float, Event]) -> Progress:
    course = Progress()
    for at, event in events:
        course.take(event, at)
    return course


def stands(course: Progress) -> list[str]:
    return [step.stand for step in course.steps.values()]


def test_steps_go_from_pending_to_done() -> None:
    course = course_of((100, BEGUN), (101, PLANNED))
    assert stands(course) == ["to come", "to come"]
    course.take(StepBegun(JOB, "read", "Read."), 102)
    assert (stands(course), course.current, course.steps["read"].what) == (["current", "to come"], "read", "Read.")
    course.take(StepEnded(JOB, "read", "done"), 105)
    assert (stands(course), course.current, course.steps["read"].seconds) == (["done", "to come"], "", 3)


def test_a_plan_with_findings_is_not_the_plan() -> None:
    assert not course_of((1, Planned(JOB, "ab" * 32, ("read",), "p", 1, ("no host",)))).steps


def test_an_amendment_keeps_what_was_done() -> None:
    course = course_of((1, PLANNED), (2, StepBegun(JOB, "read", "Read.")), (3, StepEnded(JOB, "read", "done")))
    course.take(Amended(JOB, "ef" * 32, ("read", "ask", "write"), "p"), 4)
    assert list(course.steps) == ["read", "ask", "write"]
    assert stands(course) == ["done", "to come", "to come"]


def test_a_step_that_was_begun_stays_when_a_person_takes_it_out_of_the_plan() -> None:
    course = course_of((1, PLANNED), (2, StepBegun(JOB, "read", "Read.")), (3, Amended(JOB, "ef", ("write",), "p")))
    assert list(course.steps) == ["write", "read"]
    course.take(JobPaused(JOB, "a person"), 4)
    assert (course.steps["read"].stand, course.steps["read"].seconds) == ("to come", 2)


def test_a_step_that_is_rolled_back_counts_its_attempts_and_all_their_time() -> None:
    course = course_of(
        (1, PLANNED),
        (2, StepBegun(JOB, "read", "Read.")),
        (4, StepEnded(JOB, "read", "failed", "no file")),
        (5, RolledBack(JOB, "read", 1, "no file")),
        (6, StepBegun(JOB, "read", "Read.", attempt=2)),
        (9, StepEnded(JOB, "read", "done")),
    )
    step = course.steps["read"]
    assert (step.stand, step.attempts, step.rolled_back, step.seconds) == ("done", 2, 1, 5)


def test_who_plans_and_who_acts_is_counted_apart_and_an_unknown_price_is_no_price() -> None:
    thoughts = [
        thought("", "a", 0.5),
        thought("read", "a", 0.25),
        thought("read", "b", -1.0),
        thought("read", "b", 0.1),
    ]
    costs = course_of(*((1.0, each) for each in thoughts)).shares
    assert list(costs) == [("plan", "a"), ("act", "a"), ("act", "b")]
    last = costs["act", "b"]
    assert (last.replies, last.dollars, last.unpriced) == (2, 0.1, 1)
    assert (last.input, last.output, last.cached, last.up, last.tokens) == (20, 10, 6, 2000, 36)


def test_looks_are_counted_apart_and_in_all() -> None:
    look = VisionAsked(JOB, "read", "b", "p", "done", 1500, 40, 0, 0, 400_000, 900, 0.25)
    course = course_of(
        (1, PLANNED),
        (2, StepBegun(JOB, "read", "Read.")),
        (3, thought("read", "a", 0.5)),
        (4, look),
        (5, replace(look, outcome="failed", input=0, output=0, dollars=-1.0)),
    )
    share = course.shares["look", "b"]
    assert (share.part, share.replies, share.dollars, share.unpriced, share.up) == ("look", 2, 0.25, 1, 800_000)
    assert (course.cost.dollars, course.cost.input, course.cost.up) == (0.75, 1510, 801_000)
    assert course.steps["read"].cost.replies == 3


def test_a_budget_counts_what_the_provider_still_had_as_a_tenth() -> None:
    cost = Cost()
    cost.add(Thought(JOB, "read", 1, "a", "p", 100, 20, 50_000, 1, 1, 0.1, stored=3000))
    assert (cost.tokens, cost.budget_tokens) == (53_120, 8120)


def test_an_act_without_a_result_is_unknown_once_its_process_is_gone() -> None:
    acts: list[tuple[float, Event]] = [
        (1, PLANNED),
        (2, StepBegun(JOB, "read", "Read.")),
        (3, Acted(JOB, "read", 1, "shell", "p")),
        (4, Observed(JOB, "read", 1, "done", 9, "p")),
        (5, Acted(JOB, "read", 2, "browser_open", "p")),
    ]
    course = course_of(*acts)
    assert (course.running, course.unknown) == ({2: ("browser_open", 5)}, [])
    course.take(Resumed(JOB, "uid 0 pid 1", "read", ("2 browser_open",)), 1000)
    assert (course.running, course.unknown, stands(course)) == ({}, ["2 browser_open"], ["to come", "to come"])
    assert course.steps["read"].seconds == 3
    assert fold_timed(JOB, acts).unknown == ("2 browser_open",)


@pytest.mark.parametrize("end", [JobPaused(JOB, "a person"), Thought(JOB, "", 1, "m", "p", 1, 1, 1, 1, 1)])
def test_idle_time_does_not_count(end: Event) -> None:
    decided = Decided(JOB, "1a2b3c4d", "ab" * 32, "approved", "uid 0 pid 2")
    course = course_of((100, BEGUN), (110, end), (4000, decided), (5000, Resumed(JOB, "uid 0 pid 1")))
    assert course.compute_elapsed(5003) == 13
    course.take(JobEnded(JOB, "done"), 5004)
    assert course.compute_elapsed(9999) == 14


def test_a_receipt_has_cost_steps_time_and_what_was_burnt() -> None:
    cleanup = JobBurnt(JOB, ("desk i2",), ("papers",), ())
    receipt = fold_timed(
        JOB,
        [
            (100, BEGUN),
            (101, thought("", "m", 0.5)),
            (102, PLANNED),
            (103, StepBegun(JOB, "read", "Read.")),
            (104, Acted(JOB, "read", 1, "shell", "p")),
            (105, Observed(JOB, "read", 1, "done", 9, "p")),
            (107, StepEnded(JOB, "read", "done")),
            (109, JobEnded(JOB, "done")),
            (110, cleanup),
        ],
    )
    assert (receipt.brain, receipt.acts, receipt.cleanup, receipt.unknown) == (BEGUN.brain, 1, cleanup, ())
    assert [(step.name, step.stand, step.seconds, step.acts) for step in receipt.steps] == [
        ("read", "done", 4, 1),
        ("write", "to come", 0, 0),
    ]
    assert [(cost.part, cost.model, cost.dollars) for cost in receipt.costs] == [("plan", "m", 0.5)]
    assert receipt.seconds == 9
