"""Tests of receipts made from a job's events."""

from __future__ import annotations

from dataclasses import replace

from hotdesk.event import (
    Event,
    Exchange,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Resumed,
    StepBegun,
    StepEnded,
    Verified,
)
from hotdesk.job.record.receipt import Requests, fold

JOB, DESK, SECOND = "i1", "i2", "i3"
CHECKED = Verified(JOB, SECOND, "a.xlsx", "ab" * 32, "xlsx", "passed", ("5 rows",))
KEPT = Kept(JOB, "a.xlsx", "ab" * 32, 4711)


def exchange(verdict: str, host: str, *grants: str) -> Exchange:
    return Exchange(DESK, "ask", verdict, "r", "GET", "https", host, 443, "/", 200, 1, 2, 3, grants)  # type: ignore[arg-type]


EVENTS: list[Event] = [
    JobBegun(JOB, "compare", "cd" * 32),
    StepBegun(JOB, "desk", "with the inputs", DESK),
    StepBegun(JOB, "ask", "ask", DESK),
    StepEnded(JOB, "ask", "done", "", DESK),
    StepBegun(JOB, "desk", "clean", SECOND),
    CHECKED,
    StepEnded(JOB, "desk", "done", "burnt", SECOND),
    KEPT,
    StepEnded(JOB, "desk", "done", "burnt", DESK),
    JobEnded(JOB, "done"),
    exchange("allow", "erp.test", "token in header authorization"),
    exchange("allow", "erp.test", "token in header authorization"),
    exchange("deny", "evil.test"),
    replace(exchange("allow", "echo.door.local", "canary in header authorization"), step=""),
]


def test_a_receipt_says_what_was_made_checked_kept_asked_and_burnt() -> None:
    receipt = fold(JOB, EVENTS)
    assert (receipt.goal, receipt.outcome, receipt.checks, receipt.kept) == ("compare", "done", (CHECKED,), (KEPT,))
    assert receipt.requests == (
        Requests(2, "allow", "GET", "erp.test", ("token in header authorization",)),
        Requests(1, "deny", "GET", "evil.test", ()),
    )
    assert (receipt.burnt, receipt.left) == ((DESK, SECOND), ())


def test_requests_that_nobody_approved_are_counted_apart() -> None:
    asked = replace(exchange("ask", "erp.test"), status=403, up=0)
    approved = exchange("ask", "erp.test")
    receipt = fold(JOB, [*EVENTS[:10], asked, asked, approved])
    assert [(each.count, each.verdict) for each in receipt.requests] == [(1, "ask"), (2, "not approved")]
    assert [each.refused for each in (asked, approved, replace(approved, status=502, up=0))] == [True, False, False]


def test_a_desk_without_burn_event_is_left_and_a_job_without_end_is_unknown() -> None:
    receipt = fold(JOB, EVENTS[:8])
    assert (receipt.burnt, receipt.left, receipt.outcome) == ((SECOND,), (DESK,), "unknown")
    failed = [*EVENTS[:8], StepEnded(JOB, "desk", "failed", "left", DESK), JobEnded(JOB, "failed", "no file")]
    receipt = fold(JOB, failed)
    assert (receipt.left, receipt.outcome, receipt.why) == ((DESK,), "failed", "no file")
    looked = fold(JOB, [*failed, JobBurnt(JOB, (f"desk {DESK}",), (), ())])
    assert (DESK in looked.burnt, looked.left) == (True, ())
    assert fold(JOB, [*failed, JobBurnt(JOB, (), (), (f"desk {DESK}",))]).left == (DESK,)


def test_a_job_that_stopped_is_paused_until_it_continues() -> None:
    stopped = [*EVENTS[:2], JobPaused(JOB, "its 5 acts were used up")]
    receipt = fold(JOB, stopped)
    assert (receipt.outcome, receipt.why) == ("paused", "its 5 acts were used up")
    assert fold(JOB, [*stopped, Resumed(JOB, "me")]).outcome == "unknown"
    assert fold(JOB, [*stopped, Resumed(JOB, "me"), JobEnded(JOB, "done")]).outcome == "done"
