"""Tests of forgetting a job: the key is deleted first, the journal stays intact, running jobs stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import JOB, SIGNER, Ledger, paused_job, whole_job

from hotdesk.drive.journal_audit import verify
from hotdesk.errors import BriefError
from hotdesk.event import Event, Forgotten, JobEnded, JobPaused
from hotdesk.job.record import papers
from hotdesk.job.record.forget import DAY, destroy, forget, list_due, list_strays, overwrite
from hotdesk.job.record.lock import hold_lock
from hotdesk.job.record.summary import read_summaries, summarize


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def test_a_forgotten_job_leaves_nothing_but_a_whole_journal(ledger: Ledger) -> None:
    whole_job(ledger)
    before = verify(ledger.path, SIGNER.public).events
    forget(ledger.jobs, JOB, ledger.note, "uid 0 pid 1", "asked")
    assert list(ledger.jobs.iterdir()) == []
    assert verify(ledger.path, SIGNER.public).faults == ()
    assert verify(ledger.path, SIGNER.public).events == before + 1
    assert summarize(ledger.path, JOB).forgotten == Forgotten(JOB, "uid 0 pid 1", "asked")
    with pytest.raises(BriefError, match="was deleted"):
        papers.find(ledger.jobs, JOB)


@pytest.mark.slow
def test_a_running_job_is_not_forgotten(ledger: Ledger) -> None:
    ledger.begin()
    with hold_lock(ledger.jobs / JOB), pytest.raises(BriefError, match="another process is running"):
        forget(ledger.jobs, JOB, ledger.note, "me")
    papers.find(ledger.jobs, JOB)
    assert summarize(ledger.path, JOB).forgotten is None


def test_a_job_is_not_forgotten_if_that_cannot_be_recorded(ledger: Ledger) -> None:
    ledger.begin()

    def full(event: Event) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        forget(ledger.jobs, JOB, full, "me")
    papers.find(ledger.jobs, JOB)


def test_interrupted_forgetting_is_completed_later(ledger: Ledger) -> None:
    ledger.begin()
    ledger.note(Forgotten(JOB, "me"))
    (ledger.jobs / JOB / papers.KEY).unlink()
    forget(ledger.jobs, JOB, ledger.note, "me", noted=True)
    assert not (ledger.jobs / JOB).exists()
    assert sum(isinstance(each, Forgotten) for each in [summarize(ledger.path, JOB).forgotten]) == 1
    destroy(ledger.jobs / JOB)


def test_a_key_is_overwritten_before_its_name_goes(ledger: Ledger, tmp_path: Path) -> None:
    key = ledger.begin().key
    other = tmp_path / "another name of the same bytes"
    other.hardlink_to(ledger.jobs / JOB / papers.KEY)
    overwrite(ledger.jobs / JOB / papers.KEY)
    assert len(other.read_bytes()) == len(key)
    assert other.read_bytes() != key


def test_jobs_without_events_for_long_are_due(ledger: Ledger) -> None:
    paused, waiting, stopped, gone = ("i" + letter * 20 for letter in "pwsg")
    whole_job(ledger)
    paused_job(ledger, paused)
    ledger.ask(ledger.begin(waiting), job=waiting, seconds=99 * 86400)
    ledger.ask(ledger.begin(stopped), job=stopped, seconds=99 * 86400)
    ledger.note(JobPaused(stopped, "it was asked to stop"))
    ledger.begin(gone)
    ledger.note(JobEnded(gone, "done"))
    destroy(ledger.jobs / gone)
    known = read_summaries(ledger.path)
    now = max(summary.last for summary in known)
    assert list_due(known, ledger.jobs, now + 30 * DAY - 60_000) == []
    assert [summary.job for summary in list_due(known, ledger.jobs, now + 30 * DAY)] == [JOB, paused]
    assert [summary.job for summary in list_due(known, ledger.jobs, now + 99 * DAY)] == [JOB, paused, waiting, stopped]
    with hold_lock(ledger.jobs / paused):
        assert [summary.job for summary in list_due(known, ledger.jobs, now + DAY, days=1)] == [JOB]


def test_a_folder_of_which_nothing_was_written_down_is_a_stray(ledger: Ledger) -> None:
    ledger.begin()
    papers.create(ledger.jobs, "i" + "s" * 20)
    now = int((ledger.jobs / JOB).stat().st_mtime * 1000)
    assert [each.name for each in list_strays([JOB], ledger.jobs, now + 31 * DAY)] == ["i" + "s" * 20]
    assert list_strays([JOB], ledger.jobs, now) == []
    assert list_strays([], ledger.jobs / "none", now) == []
