"""Tests of how jobs are listed and shown to people: escaped and complete."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import DESK, JOB, Ledger, paused_job, whole_job

from hotdesk.cli import carry_out
from hotdesk.cli.jobs import jobs, show
from hotdesk.cli.jobs.show_page import format_page
from hotdesk.errors import BriefError
from hotdesk.event import (
    Answered,
    Asked,
    Exchange,
    Forgotten,
    JobBegun,
    JobPaused,
    Planned,
    StepBegun,
    StepEnded,
    Thought,
)
from hotdesk.job.record.door_activity import DoorActivity
from hotdesk.job.record.lock import hold_lock
from hotdesk.job.record.summary import JobSummary, summarize

WAITS, PAUSED, KILLED = ("i" + letter * 20 for letter in "wpk")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path))
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def test_every_state_has_its_word(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    pending = ledger.ask(ledger.begin(WAITS), job=WAITS)
    paused_job(ledger, PAUSED, "stopped \x1b[2J by hand")
    ledger.begin(KILLED, "a goal\nof \u202e" + "x" * 99)
    with hold_lock(ledger.jobs / KILLED):
        jobs.main(Namespace(json=False))
    running = capsys.readouterr().out.splitlines()
    jobs.main(Namespace(json=False))
    killed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in running] == ["ID", JOB, WAITS, PAUSED, KILLED]
    assert " done " in running[1]
    assert "2 of 2" in running[1]
    assert "$0.0100" in running[1]
    assert f"waiting for {pending.id}" in running[2]
    assert "paused: stopped \\x1b[2J by hand" in running[3]
    assert " running " in running[4]
    assert " killed " in killed[4]
    assert all(line.isprintable() for line in running)
    assert running[4].endswith("…")


def test_jobs_as_json_are_whole(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    pending = ledger.ask(ledger.begin())
    assert carry_out(["jobs", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["id"], told["state"], told["waits"], told["steps"]) == (JOB, "waiting", [pending.id], 2)
    assert (told["brain"], told["forgotten"]) == ("recorded script 1a2b", False)


def test_without_a_journal_there_are_no_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path))
    assert carry_out(["jobs", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    with pytest.raises(BriefError, match="there are no jobs yet"):
        carry_out(["show", JOB])


def test_a_page_shows_a_job_from_its_plan_to_its_receipt(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    assert carry_out(["show", JOB[:6]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.isprintable() for line in lines)
    text = "\n".join(lines)
    assert lines[0] == f"job {JOB}  done"
    for wanted in (
        "  [x] 1 read: read the orders",
        "2 attempts, 2 acts (2 x shell; 1 failed)",
        "attempt 1 failed, rolled back: no such \\x1b file",
        "  [>] 2 write: write the report",
        "OUTCOME UNKNOWN of acts 3",
        "a plan: approved by uid 0 pid 7 at",
        "late0001  a change of the plan in write: not decided",
        "  1 x allow GET erp.test with t",
        "  refused POST evil\\u202e.test/x: no rule",
        "  passed  a.xlsx by xlsx: 5 rows",
        "  a.xlsx, version 2, 4711 bytes",
        f"  destroyed  desk {DESK}",
        "  kept       a.xlsx in the drive",
        "  LEFT       mount /x",
    ):
        assert wanted in text, text


def test_tokens_that_a_provider_stored_count_as_read(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.begin()
    usage = (0, 1_340, 90_000, 2_048, 7)
    ledger.note(Thought(JOB, "", 1, "anthropic:m", "p" * 64, *usage, 0.25, "", 51_000))
    carry_out(["show", JOB])
    line = next(line for line in capsys.readouterr().out.splitlines() if "spent" in line)
    told = (
        "$0.2500; 51,000 tokens read (90,000 more from the provider's cache), 1,340 written; 2.0 KiB sent to providers"
    )
    assert line.split(maxsplit=1)[1] == told


def test_steps_not_begun_have_their_intent_from_the_plan(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    pending = ledger.ask(ledger.begin(), seconds=60)
    carry_out(["show", JOB])
    text = capsys.readouterr().out
    assert "  [ ] 2 write: write the report" in text
    assert f"{pending.id}  a plan: WAITS, " in text


def test_a_forgotten_job_says_so(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    ledger.note(Forgotten(JOB, "uid 0 pid 9", "asked"))
    carry_out(["show", JOB])
    assert "stored data deleted by uid 0 pid 9: asked" in capsys.readouterr().out


def test_a_page_as_json_holds_the_same(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    carry_out(["show", JOB, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], [each["outcome"] for each in told["steps"]]) == ("done", ["done", "begun"])
    assert [each["verdict"] for each in told["door"]] == ["allow", "deny"]
    assert told["decided"][0]["by"] == "uid 0 pid 7"
    assert told["receipt"]["left"] == ["mount /x"]


def test_the_door_and_the_journal_of_a_job_are_lines(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    ledger.note(Exchange("iother", "s", "allow", "r", "GET", "https", "h", 443, "/", 200, 1, 2, 3))
    carry_out(["show", JOB, "--door"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "deny    POST https://evil\\u202e.test:443/x 403" in lines[1]
    carry_out(["show", JOB, "--journal", "--json"])
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["chain"] for each in told} == {JOB, DESK}
    assert [each["id"] for each in told] == sorted(each["id"] for each in told)


def test_a_page_has_what_people_said_at_the_door_and_no_step_but_the_plans(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    whole_job(ledger)
    ledger.note(StepBegun(JOB, "verify", "a.xlsx by xlsx", DESK), StepEnded(JOB, "verify", "done", "", DESK))
    asked = Asked(DESK, "11223344", "ab" * 32, "r", "POST", "erp\x1b[2J.test", "/x", 60.0)
    ledger.note(asked, Answered(DESK, "11223344", "ab" * 32, "refused", "uid 0 pid 9"))
    ledger.note(Asked(DESK, "55667788", "cd" * 32, "r", "PUT", "erp.test", "/y", 60.0))
    carry_out(["show", JOB])
    text = capsys.readouterr().out
    assert "  11223344  POST erp\\x1b[2J.test/x: refused by uid 0 pid 9, digest abababababababab" in text
    assert "  55667788  PUT erp.test/y: not decided" in text
    assert "] 2 write" in text
    assert "] 3 " not in text


def test_a_page_quotes_why_a_worker_failed_while_papers_exist(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ledger.begin(JOB)
    why = kept.write("no total \x1b[2J in invoice 7")
    ledger.note(StepBegun(JOB, "read", "read it", DESK), StepEnded(JOB, "read", "failed", "it gave up", DESK, why))
    carry_out(["show", JOB])
    assert "attempt 1 failed: it gave up; the worker says: no total \\x1b[2J in invoice 7" in capsys.readouterr().out
    (kept.folder / "key").unlink()
    carry_out(["show", JOB])
    assert "attempt 1 failed: it gave up\n" in capsys.readouterr().out


def test_selftest_requests_are_not_among_a_jobs_requests(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    for option in ([], ["--json"]):
        carry_out(["show", JOB, "--door", *option])
        before = capsys.readouterr().out
        ledger.note(Exchange(DESK, "", "deny", "r", "CONNECT", "https", "127.0.0.1", 443, "/", 403, 1, 2, 3))
        carry_out(["show", JOB, "--door", *option])
        assert capsys.readouterr().out == before != ""


def test_papers_are_shown_on_request(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    whole_job(ledger)
    for option in ("--papers", "--transcript"):
        carry_out(["show", JOB, option])
        assert "   thought: I \\x1b[2J look" in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_following_continues_while_a_worker_runs_and_includes_new_desks(ledger: Ledger) -> None:
    whole_job(ledger)
    summary = summarize(ledger.path, JOB)
    rows = show.iterate_rows(ledger.settings, summary, True)
    with hold_lock(ledger.jobs / JOB):
        past = list(iter(lambda: next(rows), None))
        assert past[-1] is not None
        assert past[-1].name == "JobBurnt"
        ledger.note(
            JobBegun("iother", "g", "b"),
            StepBegun(JOB, "more", "w", "inew"),
            Exchange("inew", "more", "deny", "r", "GET", "https", "h", 443, "/", 403, 1, 2, 3),
        )
        coming = list(iter(lambda: next(rows), None))
        assert [(row.chain, row.name) for row in coming if row] == [(JOB, "StepBegun"), ("inew", "Exchange")]
    assert list(rows) in ([], [None])


def test_an_interrupted_attempt_counts_with_its_time() -> None:
    summary = JobSummary(JOB)
    events = (JobBegun(JOB, "g", "b"), Planned(JOB, "ab", ("read",), "p"), StepBegun(JOB, "read", "r"))
    for event in (*events, JobPaused(JOB, "stopped")):
        summary.take(event, summary.last + 1000)
    assert "        1 attempt, 0 acts, 1.0 s" in format_page(summary, ("paused", ""), DoorActivity(), {}, 0)


def test_a_job_with_few_events_still_has_a_page(ledger: Ledger) -> None:
    ledger.note(JobBegun(JOB, "", ""))
    assert format_page(summarize(ledger.path, JOB), ("killed", ""), DoorActivity(), {}, 0)[0] == f"job {JOB}  killed"
