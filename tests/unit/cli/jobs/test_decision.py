"""Tests of decisions about jobs: who decides, finding a question, edited plans, and refusals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ledger import JOB, Ledger

from hotdesk.cli import carry_out
from hotdesk.cli.jobs import answer, approve, decision
from hotdesk.errors import BriefError
from hotdesk.event import Decided
from hotdesk.job.record import decisions
from hotdesk.plan import from_json

OTHER = "i" + "c" * 20


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setenv("HOTDESK_HOME", str(tmp_path))
    for name in ("SUDO_UID", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    made = Ledger(tmp_path)
    yield made
    made.journal.close()


def test_a_decision_records_this_process_and_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    me = f"uid {os.getuid()} pid {os.getpid()}"
    for told, by in (("", me), ("1000", f"{me} for uid 1000"), ("0 pid 1", me), ("٣", me)):
        monkeypatch.setenv("SUDO_UID", told)
        assert decision.describe_decider() == by


def test_a_question_is_found_by_its_id_or_a_prefix(ledger: Ledger) -> None:
    pending = ledger.ask(ledger.begin())
    for text in (pending.id, pending.id[:4]):
        case = decision.find_case(ledger.settings, text)
        assert case is not None
        assert case.pending == pending
        assert case.card is not None
    for text in ("", pending.id[:3], "zzzzzzzz"):
        assert decision.find_case(ledger.settings, text) is None


def test_an_ambiguous_job_id_decides_nothing(ledger: Ledger) -> None:
    pending = ledger.ask(ledger.begin())
    ledger.begin(OTHER)
    ledger.note(type(pending)(OTHER, pending.id, "plan", "ab" * 32, pending.paper, pending.until))
    with pytest.raises(BriefError, match="2 requests have ids"):
        decision.find_case(ledger.settings, pending.id)


def test_a_card_of_another_digest_is_no_card_and_can_only_be_refused(ledger: Ledger) -> None:
    kept = ledger.begin()
    pending = ledger.ask(kept)
    ledger.note(type(pending)(JOB, "ffff0000", "plan", "ab" * 32, pending.paper, pending.until))
    case = decision.find_case(ledger.settings, "ffff0000")
    assert case is not None
    assert case.card is None
    with pytest.raises(BriefError, match="only be refused"):
        decisions.make_decision(case, "approved", "", "")
    assert decisions.make_decision(case, "refused", "", "").digest == "ab" * 32


def test_a_question_is_not_approved_and_a_plan_not_answered(ledger: Ledger) -> None:
    kept = ledger.begin()
    question, plan = ledger.ask(kept, "question"), ledger.ask(kept)
    with pytest.raises(BriefError, match=f"hotdesk answer {question.id} TEXT"):
        carry_out(["approve", question.id])
    with pytest.raises(BriefError, match=f"hotdesk approve {plan.id}"):
        carry_out(["answer", plan.id, "yes"])
    with pytest.raises(BriefError, match="is pending"):
        carry_out(["answer", "99999999", "yes"])


@pytest.mark.parametrize("command", [["approve"], ["refuse"]])
def test_a_decided_or_different_question_is_not_decided_again(ledger: Ledger, command: list[str]) -> None:
    pending = ledger.ask(ledger.begin())
    with pytest.raises(BriefError, match="has the digest"):
        carry_out([*command, pending.id, "--digest", "0000"])
    ledger.note(Decided(JOB, pending.id, pending.digest, "approved", "uid 0 pid 7"))
    with pytest.raises(BriefError, match="was approved by uid 0 pid 7 at 20"):
        carry_out([*command, pending.id])


def test_a_late_decision_is_refused(ledger: Ledger) -> None:
    pending = ledger.ask(ledger.begin(), seconds=0.0)
    with pytest.raises(BriefError, match="counts as refused"):
        carry_out(["approve", pending.id])
    assert decision.open_cases(ledger.settings, int(time.time() * 1000)) == []


def test_questions_of_desks_and_jobs_are_one_list(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ledger.begin()
    later, sooner = ledger.ask(kept, seconds=90, words="please"), ledger.ask(kept, "question", seconds=30)
    now = int(time.time() * 1000)
    cases = {case.pending.id: case for case in decision.open_cases(ledger.settings, now)}
    assert cases.keys() == {later.id, sooner.id}
    told = approve.as_dict(cases[later.id])
    assert (told["id"], told["kind"], told["job"], told["digest"]) == (later.id, "plan", JOB, later.digest)
    assert json.loads(json.dumps(told))["card"]["words"] == "please"
    assert approve.format_pending(cases[later.id], now).splitlines()[-1] == '  the worker says (unchecked): "please"'


def editor(tmp_path: Path, script: str, code: int = 0) -> str:
    path = tmp_path / "an editor"
    path.write_text(f"#!/bin/sh\n{script}\nexit {code}\n")
    path.chmod(0o700)
    return f"'{path}' --wait"


def case_of(ledger: Ledger, kind: str = "plan") -> decision.OpenDecision:
    case = decision.find_case(ledger.settings, ledger.ask(ledger.begin(), kind).id)
    assert case is not None
    return case


def test_an_edited_plan_is_a_plan_and_its_difference_is_shown(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", editor(tmp_path, "sed -i 's/write the report/write it \\x1b[2J well/' \"$2\""))
    case = case_of(ledger)
    with pytest.raises(BriefError, match="not TOML"):
        decision.edit(case)
    monkeypatch.setenv("VISUAL", editor(tmp_path, "sed -i 's/write the report/write it well/' \"$2\""))
    assert [step.intent for step in from_json(decision.edit(case)).steps] == ["read the orders", "write it well"]
    assert '+intent = "write it well"' in capsys.readouterr().err


def test_an_editor_that_changed_nothing_approves_what_was_asked(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    assert decision.edit(case_of(ledger)) == ""


@pytest.mark.parametrize(
    ("program", "why"), [("false", "ended with exit code 1"), ("/no/such/editor", "cannot be started")]
)
def test_an_editor_that_failed_decides_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    monkeypatch.setenv("EDITOR", program)
    with pytest.raises(BriefError, match=why):
        decision.edit(case_of(ledger))


def test_only_a_plan_can_be_edited(ledger: Ledger) -> None:
    with pytest.raises(BriefError, match="is not a plan and cannot be edited"):
        decision.edit(case_of(ledger, "step"))


def test_an_editors_file_is_readable_only_by_its_owner(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", editor(tmp_path, f'stat -c %a "$(dirname "$2")" > {tmp_path}/mode'))
    decision.edit(case_of(ledger))
    assert (tmp_path / "mode").read_text() == "700\n"


@pytest.mark.parametrize("text", ["", "  \n", "x" * ((64 << 10) + 1)])
def test_an_answer_has_words_and_not_too_many(text: str) -> None:
    with pytest.raises(BriefError, match="characters"):
        answer.read_text(text)
    assert answer.read_text(" the second\n") == "the second"


def test_forgetting_a_job_requires_confirmation(ledger: Ledger) -> None:
    ledger.begin()
    with pytest.raises(BriefError, match="pass --yes"):
        carry_out(["forget", JOB])
    assert (ledger.jobs / JOB / "key").exists()
