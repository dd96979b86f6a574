"""Tests of approval cards: facts first, the worker's words last and escaped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.amendments import Amendment, amend
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.brief.names import get_registrable_domain
from hotdesk.event import Pending
from hotdesk.job.people.approval_text import format_card
from hotdesk.job.people.cards import make_amendment_card, make_question_card, plan_card
from hotdesk.job.people.wait import read_card
from hotdesk.plan import Action, Plan, Step

RULES = ("read erp.example.test", "POST erp.example.test/orders", "ask POST erp.example.test/pay", "read doc.test")
SCOPE = Scope(tuple(parse_rule(each) for each in RULES), (parse_grant("erp@erp.example.test bearer"),))
ASKED = Pending("i" + "j" * 20, "1a2b3c4d", "question", "f0" * 32, "cd" * 32, 41_600, step="read")
JOB = Brief("goal", (), Path(), "b" * 64, inputs=("in",), scope=SCOPE)
PLAN = Plan(
    (
        Step("read", "Read it.", ("shell",), ("GET doc.test/x",), (), ("in",), ("a.csv",)),
        Step(
            "pay",
            "Pay \x1b[2Jit.",
            (),
            ("POST erp.example.test/orders", "POST erp.example.test/pay", "GET evil.test"),
            ("erp",),
            ("a.csv",),
            kind="choose",
            actions=(Action("go", "shell", {"command": "x\u202e"}),),
        ),
    ),
    "Because.",
)


def test_the_card_of_a_plan_says_what_each_step_may_do() -> None:
    card = plan_card(PLAN, JOB, ("host doc.test",), ("secret erp for erp.example.test: no",))
    assert card.digest == PLAN.digest == card.facts["digest"]
    assert card.facts["preflight"] == "1 passed, 1 failed"
    assert card.lines == (
        "1. read (work), at the job's own desk",
        "   reaches doc.test: GET doc.test/x",
        "   tools: shell",
        "   reads: in",
        "   makes: a.csv",
        '   the worker says (unchecked): "Read it."',
        "2. pay (choose), at a fresh desk that has only the files it reads",
        "   reaches example.test: POST erp.example.test/orders",
        "   asks each time before it reaches example.test: POST erp.example.test/pay",
        "   cannot reach evil.test, because the brief does not allow it: GET evil.test",
        "   uses the secret erp@erp.example.test bearer",
        "   reads: a.csv",
        "   may choose the action go: shell {'command': 'x\\u202e'}",
        '   the worker says (unchecked): "Pay \\x1b[2Jit."',
        "at stake: pay: uses the secret erp at erp.example.test",
        "at stake: pay: may write: POST erp.example.test/orders",
        "preflight failed: secret erp for erp.example.test: no",
    )
    assert card.words == "Because."


def test_the_card_of_a_plan_says_what_a_file_may_do_beyond_being_read() -> None:
    job = replace(JOB, deliverables=(Deliverable("a.xlsm", "xlsm", (), ("macros", "queries")),))
    assert "a.xlsm may contain macros, queries" in plan_card(PLAN, job).lines
    assert not [line for line in plan_card(PLAN, JOB).lines if "may hold" in line]


def test_no_words_make_a_card_longer_than_it_may_be() -> None:
    long = replace(PLAN, thoughts="x" * 5000, steps=(replace(PLAN.steps[0], check="y" * 5000), PLAN.steps[1]))
    card = plan_card(long, JOB)
    assert len(card.words) == 300
    assert card.words.endswith("x…")
    assert max(len(each) for each in card.lines) < 350
    assert any("more characters]" in each for each in card.lines)


def test_an_intent_is_quoted_and_marked_where_it_is_cut() -> None:
    card = plan_card(Plan((Step("read", 'Read it" (checked)\n' + "z" * 999),)), JOB)
    last = next(line for line in card.lines if "worker" in line)
    assert last.startswith("   the worker says (unchecked): \"Read it' (checked) zzz")
    assert last.endswith('z…"')
    assert (last.count('"'), len(last)) == (2, 300)


def test_a_person_can_read_all_of_a_question() -> None:
    question = "Which of these customers is meant?\n" + "\n".join(f"{n}. Customer {n} of Ulm" for n in range(100))
    card = make_question_card(PLAN.steps[0], question)
    assert card.words.startswith("Which of these customers is meant? 0. Customer 0 of Ulm 1. Customer")
    assert card.words.endswith("99. Customer 99 of Ulm")
    assert card.words in format_card(ASKED, card, 0)
    assert read_card(card.as_json()) == card


def test_commands_of_a_plan_are_escaped_on_a_card() -> None:
    card = plan_card(Plan((Step("run", "Run.", (), (), (), kind="program", program="a\x1b[2J\nb"),)), JOB)
    assert "   runs: a\\x1b[2J\\nb" in card.lines


def test_a_script_that_lists_nothing_shows_what_the_brief_has() -> None:
    card = plan_card(Plan((Step("count", "Count."),)), JOB)
    assert "   reaches doc.test: read doc.test (allowed by the brief)" in card.lines
    assert "   tools: everything that the brief allows" in card.lines


def test_the_card_of_an_amendment_shows_the_difference_and_whose_host_it_is() -> None:
    asked = Amendment("read", ("POST a.very.long.name.evil.test/x",), reason="Please \u202e\n" * 100)
    new = amend(PLAN, asked)
    card = make_amendment_card(asked, PLAN, new, JOB)
    assert card.digest == new.digest == card.facts["digest"]
    assert card.facts["within the brief"] == "no"
    assert card.lines == (
        "+ read: host POST a.very.long.name.evil.test/x",
        "approval also allows what the brief does not, at evil.test: POST a.very.long.name.evil.test/x",
        "at stake: read: may write without signing in: POST a.very.long.name.evil.test/x",
    )
    assert len(card.words) == 300
    assert card.words.isprintable()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a.b.example.test", "example.test"),
        ("*.example.test", "example.test"),
        ("www.shop.co.uk", "shop.co.uk"),
        ("me.github.io", "me.github.io"),
        ("a.me.blob.core.windows.net", "me.blob.core.windows.net"),
        ("github.io", "github.io"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("localhost", "localhost"),
    ],
)
def test_a_hosts_owner_is_shown_by_its_registered_domain(host: str, expected: str) -> None:
    assert get_registrable_domain(parse_rule(host).host) == expected
