"""Tests of a plan in sentences: every risk is named, hosts by their owners, and the length is bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.job.people.test_cards import JOB, PLAN

from hotdesk.brain.amendments import Amendment, amend
from hotdesk.brain.permits import find_stakes, is_risky
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Deliverable
from hotdesk.job.people.cards import make_amendment_card, plan_card, step_card
from hotdesk.job.people.plan_text import describe_amendment, describe_plan, step_stakes
from hotdesk.job.people.wait import read_card
from hotdesk.plan import Plan, Step

RULES = ("write erp.test", "tunnel t.test", "read 10.0.0.0/8", "read in.test private")
SCOPE = Scope(tuple(map(parse_rule, RULES)), (parse_grant("erp@erp.test bearer"),))


def test_a_plan_is_described_in_sentences() -> None:
    card = describe_plan(plan_card(PLAN, JOB), PLAN, JOB, failed=("secret erp: no",))
    assert card.stakes == (
        "Step pay uses the secret erp at example.test (erp.example.test).",
        "Step pay may send data to example.test (POST erp.example.test/orders).",
        "Something that the plan needs is missing or was not tested: secret erp: no",
    )
    assert card.steps == (
        (
            "1. read",
            "Works at the job's own desk.",
            "Reads from doc.test (doc.test/x).",
            "May run commands.",
            "Reads in.",
            "Writes a.csv.",
        ),
        (
            "2. pay",
            "Works at a fresh desk that has only the files it reads.",
            "Sends data to example.test (POST erp.example.test/orders).",
            "Sends data to example.test (POST erp.example.test/pay), with your approval each time.",
            "Reads from evil.test (evil.test): refused, because the brief does not allow it.",
            "Uses the secret erp at erp.example.test; the desk gets a placeholder, never its value.",
            "Reads a.csv.",
            "May choose the action go: shell {'command': 'x\\u202e'}",
        ),
    )
    assert card.digest == PLAN.digest


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Step("one", "", hosts=(), grants=("erp",)), "uses the secret erp at erp.test."),
        (Step("one", "", hosts=("tunnel t.test",), grants=()), "may exchange encrypted data with t.test (t.test) that"),
        (Step("one", "", hosts=("POST erp.test/x",), grants=()), "erp.test/x), without using a secret of yours."),
        (Step("one", "", hosts=("POST erp.test/x",), grants=("erp",)), "may send data to erp.test (POST erp.test/x)."),
        (Step("one", "", hosts=("read in.test",), grants=()), ""),
        (Step("one", "", hosts=("read 10.0.0.0/8",), grants=()), "may reach a private network: 10.0.0.0/8"),
        (
            Step("one", "", hosts=(), grants=("erp",), desk="same"),
            "uses secrets at a desk that may have read untrusted",
        ),
        (Step("one", "", hosts=(), grants=("erp",), keeps=True), "uses secrets while programs of the step before"),
        (Step("one", "", hosts=(), grants=(), tools=("packages",)), "may install packages, as root where"),
    ],
    ids=["secret", "tunnel", "write", "signed in", "read", "private", "foreign", "processes", "root"],
)
def test_everything_that_is_at_stake_has_a_sentence(step: Step, words: str) -> None:
    job = replace(JOB, scope=SCOPE)
    found = step_stakes(step, job)
    assert len(found) == len(is_risky(step, SCOPE)) == len(list(find_stakes(step, SCOPE)))
    assert any(words in each for each in found) if words else found == []


def test_a_file_that_acts_is_at_stake() -> None:
    job = replace(JOB, deliverables=(Deliverable("a.xlsm", "xlsm", (), ("macros", "queries")),))
    assert "a.xlsm may contain macros and queries." in describe_plan(plan_card(PLAN, job), PLAN, job).stakes


def test_the_card_of_one_step_is_about_that_step() -> None:
    card = describe_plan(step_card(PLAN, 0, JOB), PLAN, JOB, 0)
    assert (card.stakes, [each[0] for each in card.steps]) == ((), ["1. read"])


def test_an_amendment_says_what_it_adds_and_that_it_goes_beyond_the_brief() -> None:
    asked = Amendment("read", ("POST a.very.long.name.evil.test/x",), grants=("erp",))
    new = amend(PLAN, asked)
    card = describe_amendment(make_amendment_card(asked, PLAN, new, JOB), asked, PLAN, new, JOB)
    assert (
        "Step read asks for evil.test (POST a.very.long.name.evil.test/x), which the brief does not allow."
        in card.stakes
    )
    assert "Step read asks for a secret after it may have read untrusted content." in card.stakes
    assert not [each for each in card.stakes if "pay" in each]
    assert [each[0] for each in card.steps] == ["1. read"]


def test_an_amendment_shows_every_step_it_changes_and_which_check_it_takes_away() -> None:
    plan = Plan((replace(PLAN.steps[0], check="grep -q 1 a.csv"), *PLAN.steps[1:]))
    more = Step("send", "Send.", ("shell",), ("POST erp.example.test/orders",), ("erp",))
    asked = Amendment("read", check="true", steps=(more,))
    new = amend(plan, asked)
    made = make_amendment_card(asked, plan, new, JOB)
    card = describe_amendment(made, asked, plan, new, JOB)
    assert '~ read: check is "true"' in card.lines
    assert "- step pay" in card.lines
    assert "Step read is now checked by another command; before: grep -q 1 a.csv" in card.stakes
    assert "Step send uses the secret erp at example.test (erp.example.test)." in card.stakes
    assert "Step pay is removed." in card.stakes
    assert [each[0] for each in card.steps] == ["1. read", "2. send"]


def test_a_card_is_bounded_and_escaped_for_every_plan() -> None:
    hosts = tuple(f"POST h{number}.test/{'x' * 400}" for number in range(500))
    steps = (Step("big", "x", ("shell",), hosts, (), tuple(f"f{n}\x1b[2J" for n in range(500)), check="y" * 5000),)
    card = describe_plan(plan_card(Plan(steps), JOB), Plan(steps), JOB, failed=tuple("z" * 1000 for _ in range(100)))
    assert len(card.stakes) <= 61
    assert len(card.steps[0]) <= 43
    assert all(each.isprintable() and len(each) < 350 for each in (*card.stakes, *card.steps[0]))


def test_a_card_is_read_back_and_so_is_one_from_before_there_were_sentences() -> None:
    card = describe_plan(plan_card(PLAN, JOB), PLAN, JOB)
    assert read_card(card.as_json()) == card
    old = {name: value for name, value in json.loads(card.as_json()).items() if name not in ("stakes", "steps")}
    assert read_card(json.dumps(old)) == replace(card, stakes=(), steps=())
