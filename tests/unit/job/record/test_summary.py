"""Tests of job summaries: state, steps and cost, for one job or all of a journal in one pass."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import JOB, Ledger, paused_job, whole_job

from hotdesk.errors import BriefError
from hotdesk.event import (
    Acted,
    Decided,
    Event,
    JobBegun,
    JobEnded,
    JobPaused,
    Observed,
    Pending,
    Planned,
    Resumed,
    StepBegun,
    StepEnded,
    Thought,
)
from hotdesk.job.record.progress import Cost
from hotdesk.job.record.summary import CHECKING, JobSummary, find_job, read_summaries, summarize

NOW, LATER = 1_000, 2_000
PENDING = Pending(JOB, "1a2b3c4d", "plan", "ab" * 32, "cd" * 32, LATER)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def told(*events: Event) -> JobSummary:
    summary = JobSummary(JOB)
    for event in (JobBegun(JOB, "g", "b"), *events):
        summary.take(event, NOW)
    return summary


BOUND = "uid 0 pid 1"
STATES: list[tuple[tuple[Event, ...], bool, int, tuple[str, str]]] = [
    ((), True, NOW, ("running", "")),
    ((), False, NOW, ("killed", "")),
    ((PENDING,), True, NOW, ("waiting", "1a2b3c4d")),
    ((PENDING,), False, NOW, ("waiting", "1a2b3c4d")),
    ((PENDING,), False, LATER, ("killed", "")),
    ((PENDING, JobPaused(JOB, "asked")), False, NOW, ("paused", "asked")),
    ((PENDING, JobPaused(JOB, "asked")), False, LATER, ("paused", "asked")),
    ((PENDING, JobPaused(JOB, "asked"), Resumed(JOB, BOUND)), True, NOW, ("waiting", "1a2b3c4d")),
    ((PENDING, Decided(JOB, "1a2b3c4d", "ab" * 32, "approved", BOUND)), True, NOW, ("running", "")),
    ((JobPaused(JOB, "asked"),), False, NOW, ("paused", "asked")),
    ((JobPaused(JOB, "asked"), Resumed(JOB, BOUND)), True, NOW, ("running", "")),
    ((JobPaused(JOB, "asked"), Resumed(JOB, BOUND)), False, NOW, ("killed", "")),
    ((JobEnded(JOB, "failed", "no"),), False, NOW, ("failed", "no")),
    ((JobEnded(JOB, "interrupted"),), False, NOW, ("interrupted", "")),
    ((JobEnded(JOB, "interrupted"), Resumed(JOB, BOUND)), True, NOW, ("running", "")),
    ((PENDING, JobEnded(JOB, "done")), False, NOW, ("done", "")),
]


@pytest.mark.parametrize(("events", "live", "now", "state"), STATES)
def test_the_state_of_a_job_is_summarised(
    events: tuple[Event, ...], live: bool, now: int, state: tuple[str, str]
) -> None:
    assert told(*events).get_state(live, now) == state


@pytest.mark.parametrize(
    ("events", "lacks"),
    [
        ((JobPaused(JOB, "it is silent", "model"),), True),
        ((JobPaused(JOB, "a person said: the model could not be called"),), False),
        ((JobPaused(JOB, "it is silent", "model"), Resumed(JOB, BOUND)), False),
        ((JobPaused(JOB, "it is silent", "model"), Resumed(JOB, BOUND), JobPaused(JOB, "asked")), False),
    ],
)
def test_a_job_that_lacks_a_model_says_so_by_its_cause(events: tuple[Event, ...], lacks: bool) -> None:
    assert told(*events).lacks_model == lacks


def test_a_job_tells_its_steps_attempts_acts_and_cost(ledger: Ledger) -> None:
    whole_job(ledger)
    summary = summarize(ledger.path, JOB)
    read, write = summary.list_steps()
    assert [(each.outcome, each.rolled_back) for each in read.tries] == [("failed", True), ("done", False)]
    assert (read.outcome, dict(read.tools), read.failed, read.unknown) == ("done", {"shell": 2}, 1, set())
    assert (write.outcome, write.unknown) == ("begun", {3})
    assert (summary.place, str(summary.cost), summary.goal) == ((2, 2), "$0.0100", "compare the invoices")
    assert summary.receipt is not None
    assert summary.receipt.left == ("mount /x",)


def test_an_act_without_a_result_has_an_unknown_outcome() -> None:
    summary = told(StepBegun(JOB, "s", "w"), Acted(JOB, "s", 1, "shell", "p"), Acted(JOB, "s", 2, "shell", "p"))
    summary.take(Observed(JOB, "s", 1, "done", 3, "p"), NOW)
    assert summary.course.steps["s"].unknown == {2}


@pytest.mark.parametrize(
    ("dollars", "text"),
    [((), "-"), ((0.5, 0.25), "$0.7500"), ((-1.0,), "unknown"), ((0.5, -1.0), "$0.5000 and more, unknown")],
)
def test_an_unknown_cost_is_reported_as_unknown(dollars: tuple[float, ...], text: str) -> None:
    cost = Cost()
    for each in dollars:
        cost.add(Thought(JOB, "s", 1, "m", "p", 1, 1, 0, 1, 1, each))
    assert str(cost) == text


def test_every_job_is_reported_in_one_pass_and_desks_are_none(ledger: Ledger) -> None:
    whole_job(ledger)
    paused_job(ledger, "i" + "b" * 20)
    found = read_summaries(ledger.path)
    assert [(each.job, each.get_state(False, 0)[0]) for each in found] == [(JOB, "done"), ("i" + "b" * 20, "paused")]
    assert read_summaries(ledger.path.with_name("none.db")) == []


def test_a_line_needs_no_more_than_the_page_tells(ledger: Ledger) -> None:
    whole_job(ledger)
    line, page = read_summaries(ledger.path)[0], summarize(ledger.path, JOB)
    for each in ("place", "goal", "brain", "ended", "cost", "plan"):
        assert getattr(line, each) == getattr(page, each)


@pytest.mark.slow
def test_tens_of_thousands_of_events_are_listed_at_once(ledger: Ledger) -> None:
    for number in range(30):
        job = f"i{number:020}"
        ledger.journal.add(job, "owner", JobBegun(job, "g", "b"))
        for act in range(500):
            ledger.journal.add(job, "owner", Acted(job, "s", act, "shell", "ab" * 32))
            ledger.journal.add(job, "owner", Observed(job, "s", act, "done", 1, "ab" * 32))
    ledger.journal.commit()
    start = time.process_time()
    assert len(read_summaries(ledger.path)) == 30
    assert time.process_time() - start < 1.0


def test_an_event_of_a_later_version_is_passed_over_and_counted(ledger: Ledger) -> None:
    ledger.begin()
    row = ledger.path
    ledger.journal._db.execute("UPDATE events SET version = 2 WHERE name = 'Planned'")
    assert summarize(row, JOB).strange == 1
    assert summarize(row, JOB).goal == "compare the invoices"


def test_a_job_is_found_by_its_id_or_what_only_its_id_begins_with(ledger: Ledger) -> None:
    one, other = "iaaaa" + "1" * 16, "iaaaa" + "2" * 16
    for job in (one, other):
        ledger.begin(job)
    assert find_job(ledger.path, one) == one
    assert find_job(ledger.path, "iaaaa2") == other
    expected = {"iaaaa": "several jobs .*: iaaaa1", "ix" * 5: "not found", "ia": "not found", "": "not found"}
    for text, why in expected.items():
        with pytest.raises(BriefError, match=why):
            find_job(ledger.path, text)


def test_a_step_that_was_given_another_desk_during_it_ends_there() -> None:
    plan = Planned(JOB, "ab", ("read",), "p")
    summary = told(plan, StepBegun(JOB, "read", "r", "i1"), StepEnded(JOB, "read", "done", "", "i2"))
    assert [step.outcome for step in summary.list_steps()] == ["done"]


def test_a_job_that_is_done_is_at_its_last_step_though_an_earlier_one_was_repeated_last() -> None:
    plan = Planned(JOB, "ab", ("make", "sum up"), "p")
    events: list[Event] = [plan, StepBegun(JOB, "sum up", "s", "i1"), StepEnded(JOB, "sum up", "done", "", "i1")]
    again: list[Event] = [StepBegun(JOB, "make", "m", "i1", 2), StepEnded(JOB, "make", "done", "", "i1")]
    assert told(*events, *again).place == (1, 2)
    assert told(*events, *again, JobEnded(JOB, "done", "")).place == (2, 2)


def test_the_parts_of_the_line_are_no_steps_and_every_desk_is_known() -> None:
    summary = told(
        Planned(JOB, "ab", ("read", "write"), "p"),
        StepBegun(JOB, "desk", "with the inputs", "i1"),
        StepBegun(JOB, "read", "read it", "i1"),
        StepBegun(JOB, "desk", "fresh", "i2"),
        StepEnded(JOB, "desk", "done", "burnt", "i1"),
        StepBegun(JOB, "desk", CHECKING, "i3"),
        StepBegun(JOB, "verify", "a.xlsx", "i3"),
        StepBegun(JOB, "write", CHECKING, "i2"),
    )
    assert summary.checking == {"i3"}
    assert [step.name for step in summary.list_steps()] == ["read", "write"]
    assert summary.place == (2, 2)
    assert list(summary.desks) == ["i1", "i2", "i3"]
