"""Tests of which steps are repeated, how often a step is tried, and what a worker is told about earlier work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hotdesk.event import Acted, Exchange, Observed, StepBegun, Thought
from hotdesk.job.record.possible_writes import may_write
from hotdesk.job.record.resume_state import ResumeState
from hotdesk.job.steps import Steps, describe_lost
from hotdesk.plan import Plan, Step

JOB = "i" + "a1b2" * 5
A, B = Step("a", "do", makes=("a.txt",)), Step("b", "do", keeps=True, makes=("b.txt",))
LIVE, KEEPS = Step("live", "serve", live=True), Step("keeps", "go on", keeps=True)
ALSO = Step("also", "serve more", keeps=True, live=True)


def steps_of(*plan: Step, done: tuple[str, ...] = (), past: ResumeState | None = None) -> Steps:
    plans, none = SimpleNamespace(plan=Plan(plan)), None
    made = Steps(none, none, none, none, plans, none, none, past or ResumeState(JOB), none)  # type: ignore[arg-type]
    made.summaries = dict.fromkeys(done, "")
    return made


@pytest.mark.parametrize(
    ("plan", "done", "again"),
    [
        ((A, B), (), []),
        ((A, B), ("a",), []),
        ((LIVE, A), ("live",), []),
        ((LIVE, KEEPS), ("live",), ["live"]),
        ((LIVE, KEEPS), ("live", "keeps"), []),
        ((LIVE, ALSO, KEEPS), ("live", "also"), ["live", "also"]),
        ((LIVE, B, KEEPS), ("live", "b"), ["live"]),
        ((LIVE, A, KEEPS), ("live", "a"), []),
        ((A, ALSO, KEEPS), ("a", "also"), ["also"]),
        ((KEEPS, A), (), []),
    ],
)
def test_only_what_the_next_step_continues_with_and_no_file_holds_is_done_again(
    plan: tuple[Step, ...], done: tuple[str, ...], again: list[str]
) -> None:
    assert steps_of(*plan, done=done).list_steps_to_repeat() == again


@pytest.mark.parametrize(
    ("current", "attempt", "tries", "goes_on", "numbers"),
    [
        ("", 0, [], False, [1, 2]),
        ("a", 1, [], False, [2, 3]),
        ("a", 1, [], True, [1, 2]),
        ("", 1, [("a", 1, "why")], False, [2]),
        ("a", 2, [("a", 1, "why")], True, [2]),
        ("a", 2, [("a", 1, "why")], False, [3]),
        ("", 2, [("a", 1, "why"), ("a", 2, "why")], False, []),
        ("", 2, [("b", 1, "why")], False, [1, 2]),
        ("b", 2, [], False, [1, 2]),
    ],
)
def test_what_was_broken_off_is_tried_again_and_what_failed_counts(
    current: str, attempt: int, tries: list[tuple[str, int, str]], goes_on: bool, numbers: list[int]
) -> None:
    made = steps_of(A, B, past=ResumeState(JOB, current=current, attempt=attempt, tries=tries))
    assert list(made.list_remaining_attempts(A, made.list_failures(A), goes_on)) == numbers
    assert made.past.current == ("" if current == "a" else current)


def test_a_step_taken_again_for_what_lives_has_not_failed_yet() -> None:
    made = steps_of(LIVE, KEEPS, done=("live",), past=ResumeState(JOB, current="keeps", tries=[("live", 1, "why")]))
    assert made.list_failures(LIVE) == []
    assert list(made.list_remaining_attempts(LIVE, [], goes_on=False)) == [1, 2]
    assert made.past.current == "keeps"


def test_what_those_made_who_shared_a_desk_comes_back_together() -> None:
    made = steps_of(LIVE, A, B, KEEPS)
    assert [made.list_returned_files(step) for step in (A, B, KEEPS)] == [
        ["a.txt"],
        ["a.txt", "b.txt"],
        ["a.txt", "b.txt"],
    ]


@pytest.mark.parametrize(
    ("method", "status", "up", "body", "expected"),
    [
        ("GET", 200, 80, 0, False),
        ("HEAD", 200, 80, 0, False),
        ("POST", 201, 80, 0, True),
        ("DELETE", 403, 0, 0, False),
        ("GET", 200, 80, 12, True),
        ("GET", 101, 80, 0, True),
        ("CONNECT", 200, 80, 0, True),
    ],
)
def test_a_request_that_may_have_written_is_any_but_a_plain_read(
    method: str, status: int, up: int, body: int, expected: bool
) -> None:
    url = ("https", "shop.test", 443, "/x", status)
    assert may_write(Exchange("d", "a", "allow", "", method, *url, up, 9, 1, body=body)) is expected


def test_a_worker_is_told_what_was_lost_and_what_is_unknown() -> None:
    past = ResumeState(JOB)
    for event in (
        StepBegun(JOB, "a", "do"),
        Thought(JOB, "a", 1, "m", "t", 0, 0, 0, 0, 0),
        Acted(JOB, "a", 1, "shell", "p"),
        Observed(JOB, "a", 1, "done", 1, "p"),
        Thought(JOB, "a", 2, "m", "t", 0, 0, 0, 0, 0),
        Acted(JOB, "a", 2, "browser_click", "p"),
    ):
        past.take(event, 1)
    assert describe_lost(past) == (
        "These calls were made, but their changes to files are lost: 1 shell, 2 browser_click. "
        "The result of 2 browser_click is unknown: find out what happened before you repeat it."
    )
    assert describe_lost(ResumeState(JOB)) == ""
