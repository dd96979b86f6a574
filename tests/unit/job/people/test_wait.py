"""Tests of open questions read from the journal: the first decision in time about exactly the question counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ledger import JOB, Ledger

from hotdesk.errors import BriefError
from hotdesk.event import Decided, Forgotten, JobEnded, Pending
from hotdesk.job.people.wait import Card, OpenQuestions, decide, read_all_waiting, read_card, read_waiting, require_open

LATE = 1 << 50


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def yes(pending: Pending, by: str = "uid 0 pid 1") -> Decided:
    return Decided(pending.job, pending.id, pending.digest, "approved", by)


def test_undecided_questions_wait_and_decided_ones_do_not(ledger: Ledger) -> None:
    kept = ledger.begin()
    one, other = ledger.ask(kept), ledger.ask(kept, "question")
    assert read_waiting(ledger.path, JOB).open == [one, other]
    ledger.note(yes(one))
    assert read_waiting(ledger.path, JOB).open == [other]


def test_the_first_of_two_decisions_counts(ledger: Ledger) -> None:
    pending = ledger.ask(ledger.begin())
    ledger.note(yes(pending, "uid 0 pid 1"))
    ledger.note(Decided(JOB, pending.id, pending.digest, "refused", "uid 0 pid 2"))
    found = read_waiting(ledger.path, JOB)
    assert found.decided[pending.id] == yes(pending, "uid 0 pid 1")
    with pytest.raises(BriefError, match=f"{pending.id} was approved by uid 0 pid 1 at 20"):
        require_open(pending, found, "", 0)


@pytest.mark.parametrize("end", [JobEnded(JOB, "done"), Forgotten(JOB, "uid 0 pid 1")])
def test_nothing_waits_in_a_job_that_is_over_or_forgotten(ledger: Ledger, end: JobEnded | Forgotten) -> None:
    ledger.ask(ledger.begin())
    ledger.note(end)
    assert read_waiting(ledger.path, JOB).open == []


def test_reading_on_takes_only_what_is_new(ledger: Ledger) -> None:
    kept, found = ledger.begin(), OpenQuestions()
    one = ledger.ask(kept)
    found.read_on(ledger.path, JOB)
    place = found.last
    found.read_on(ledger.path, JOB)
    assert (found.last, found.open) == (place, [one])
    found.pending.clear()
    found.read_on(ledger.path, JOB)
    assert found.open == []
    found.take(one)
    ledger.note(yes(one))
    found.read_on(ledger.path, JOB)
    assert found.open == []
    assert found.last > place


def test_open_questions_of_all_jobs_are_found_in_one_pass(ledger: Ledger) -> None:
    other = "i" + "c" * 20
    one, two = ledger.ask(ledger.begin()), ledger.ask(ledger.begin(other), job=other)
    found = read_all_waiting(ledger.path)
    assert {job: each.open for job, each in found.items()} == {JOB: [one], other: [two]}
    assert read_all_waiting(ledger.path.with_name("none.db")) == {}


def test_a_decision_is_about_the_digest_and_in_time(ledger: Ledger) -> None:
    pending = ledger.ask(ledger.begin())
    found = read_waiting(ledger.path, JOB)
    require_open(pending, found, "", pending.until - 1)
    require_open(pending, found, pending.digest[:8], pending.until - 1)
    with pytest.raises(BriefError, match="has the digest"):
        require_open(pending, found, "0000", pending.until - 1)
    with pytest.raises(BriefError, match="counts as refused"):
        require_open(pending, found, "", pending.until)


def test_a_card_that_was_exchanged_approves_nothing(ledger: Ledger) -> None:
    kept = ledger.begin()
    pending = ledger.ask(kept)
    card = read_card(kept.read_text(pending.paper))
    assert decide(pending, card, kept, "approved", "me").digest == pending.digest
    with pytest.raises(BriefError, match="were changed"):
        decide(pending, replace(card, subject="another"), kept, "approved", "me")


def test_an_edited_subject_is_a_paper_and_its_digest_is_what_is_approved(ledger: Ledger) -> None:
    kept = ledger.begin()
    pending = ledger.ask(kept)
    told = decide(pending, read_card(kept.read_text(pending.paper)), kept, "approved", "me", edited="other words")
    assert told.digest == Card("", {}, subject="other words").digest != pending.digest
    assert kept.read_text(told.paper) == "other words"
