"""Tests of scoring jobs from their events: passed at once, corrected, or failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.brain.models.record import RecordedLine, RecordedRequest
from hotdesk.brain.models.seam import Reply, TokenUsage
from hotdesk.evaluation.grade import Grade
from hotdesk.evaluation.score import JobFigures, ModelUsage, add_recorded_usage, judge, score_job
from hotdesk.event import (
    Acted,
    Event,
    JobBegun,
    JobEnded,
    JobPaused,
    RolledBack,
    SentBack,
    StepEnded,
    Thought,
    Verified,
)

JOB, DESK = "i" + "a" * 20, "i" + "b" * 20
BEGUN = JobBegun(JOB, "Add up.", "cd" * 32, "chat:m@http://127.0.0.1:1/v1")
PLANNED = Thought(JOB, "", 1, "m", "p1", 1000, 100, 0, 5000, 1500, 0.01)
WORKED = Thought(JOB, "add", 2, "m", "p2", 500, 50, 900, 6000, 500, 0.02)
ACTED = Acted(JOB, "add", 1, "run", "p3")
PASSED = Verified(JOB, DESK, "total.json", "ab" * 32, "json", "passed", ("it opens",))
FAILED = replace(PASSED, outcome="failed", findings=("total: expected a number, found null", "another"))
BACK = SentBack(JOB, "add", "total.json", "ab" * 32, "p4")
DONE = JobEnded(JOB, "done")
GOOD = Grade(True, ())
BAD = Grade(False, ("The total is 5, not 6.", "Another fault."))


def test_a_job_that_passes_at_once_is_a_success_at_the_first_delivery() -> None:
    figures = score_job([BEGUN, PLANNED, WORKED, ACTED, PASSED, DONE])
    assert figures == JobFigures(
        outcome="done",
        model="chat:m@http://127.0.0.1:1/v1",
        passed_checks_first=True,
        turns=2,
        tool_calls=1,
        usage=ModelUsage(1500, 150, 900, 0.03, 2000),
        waiting_ms=2000,
        turns_by_step={"": 1, "add": 1},
    )
    result = judge("code/sample", 1, figures, GOOD, 5.0)
    assert (result.outcome, result.first_delivery, result.failure) == ("passed", True, "")
    assert result.own_seconds == pytest.approx(3.0)


def test_a_corrected_delivery_is_a_success_but_not_at_the_first() -> None:
    figures = score_job([BEGUN, PLANNED, FAILED, BACK, WORKED, PASSED, DONE])
    result = judge("code/sample", 1, figures, GOOD, 5.0)
    assert (result.outcome, result.first_delivery) == ("passed", False)
    assert result.failure == "total.json failed the check json: total: expected a number, found null"


def test_a_file_that_is_missing_at_the_first_delivery_counts_as_failed() -> None:
    figures = score_job([BEGUN, PLANNED, BACK, WORKED, PASSED, DONE])
    assert not figures.passed_checks_first
    assert figures.failure == "total.json was sent back to the step add"


def test_the_grader_decides_whatever_hotdesk_checked() -> None:
    result = judge("code/sample", 1, score_job([BEGUN, PLANNED, PASSED, DONE]), BAD, 5.0)
    assert (result.outcome, result.first_delivery, result.failure) == ("failed", False, "The total is 5, not 6.")
    assert result.faults == BAD.faults


ENDS: dict[str, tuple[list[Event], str, str]] = {
    "the worker failed": ([JobEnded(JOB, "failed", "it gave up")], "failed", "the job ended as failed: it gave up"),
    "its time was up": ([JobPaused(JOB, "300 seconds were up")], "failed", "the job stopped: 300 seconds were up"),
    "its provider was down": (
        [JobPaused(JOB, "status 529", "model")],
        "broken",
        "the job stopped: status 529",
    ),
    "its disk was full and it was resumed": (
        [JobPaused(JOB, "the disk is full", "machine"), JobEnded(JOB, "failed", "it gave up")],
        "failed",
        "the job stopped: the disk is full",
    ),
    "hotdesk failed": ([JobEnded(JOB, "broken", "no disk")], "broken", "the job ended as broken: no disk"),
    "nobody knows": ([], "failed", "the job's events record no end; see `hotdesk show JOB`"),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_job_that_does_not_succeed_has_a_reason(case: str) -> None:
    ends, outcome, failure = ENDS[case]
    result = judge("code/sample", 1, score_job([BEGUN, PLANNED, *ends]), None, 5.0)
    assert (result.outcome, result.failure) == (outcome, failure)


def test_a_job_whose_model_never_replied_was_not_run() -> None:
    result = judge("code/sample", 1, score_job([BEGUN, JobPaused(JOB, "nobody listens")]), None, 5.0)
    assert (result.outcome, result.failure) == ("broken", "the job stopped: nobody listens")


def test_a_step_that_failed_and_was_repeated_is_named_where_nothing_else_failed() -> None:
    failed = StepEnded(JOB, "add", "failed", "exit code 2")
    events: list[Event] = [BEGUN, PLANNED, failed, RolledBack(JOB, "add", 1), PASSED, DONE]
    result = judge("code/sample", 1, score_job(events), GOOD, 5.0)
    assert (result.first_delivery, result.failure) == (True, "step add: exit code 2")
    assert judge("code/sample", 1, score_job(events), BAD, 5.0).failure == "The total is 5, not 6."


def test_an_unknown_price_makes_the_cost_unknown_but_a_script_costs_nothing() -> None:
    unknown = replace(WORKED, dollars=-1.0)
    assert score_job([BEGUN, PLANNED, unknown]).usage.dollars is None
    script = replace(unknown, input=0, output=0, cached=0)
    assert score_job([BEGUN, script]).usage.dollars == 0.0


def test_a_failure_is_one_short_printable_line() -> None:
    figures = score_job([BEGUN, JobEnded(JOB, "failed", "a\nb\x1b[31m" + "x" * 1000)])
    assert figures.failure.startswith("the job ended as failed: a b")
    assert "\n" not in figures.failure
    assert "\x1b" not in figures.failure
    assert len(figures.failure) == 300


def recorded(step: str, usage: TokenUsage | None, ms: int = 0) -> RecordedLine:
    """Return a line of a recording; without a usage, one of a model that did not answer."""
    request = RecordedRequest(step, "", 0, [], [], None, 100, True)
    return RecordedLine(request, None if usage is None else Reply(usage=usage), ms=ms)


def test_a_replay_counts_the_usage_of_the_replies_it_repeated() -> None:
    lines = [
        recorded("", TokenUsage(100, 10, 1, 2, dollars=0.5), 1000),
        recorded("add", None),
        recorded("add", TokenUsage(200, 20, dollars=0.25), 2000),
        recorded("add", TokenUsage(400, 40, dollars=1.0), 4000),
    ]
    free = [replace(each, input=0, output=0, cached=0, dollars=0.0, ms=1) for each in (PLANNED, WORKED)]
    figures = score_job([BEGUN, *free])
    assert figures.usage == ModelUsage(0, 0, 0, 0.0, 2)
    replayed = add_recorded_usage(figures, lines)
    assert replayed.usage == ModelUsage(300, 30, 3, 0.75, 3000)
    assert judge("code/sample", 1, replayed, GOOD, 2.0).own_seconds == pytest.approx(1.998)
