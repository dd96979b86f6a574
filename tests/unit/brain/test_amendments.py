"""Leaving the plan: what it is then, in which facts it differs, and who decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.amendments import AMEND, Amendment, amend, difference, policy, read_amendment, widen_scope
from hotdesk.brain.permits import compile_scope
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.brief.brief import Approve, Brief
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.target import Target
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step

RULES = ("read erp.test", "POST erp.test/orders", "read doc.test", "deny erp.test/admin/*", "tunnel t.test")
SCOPE = Scope(tuple(parse_rule(each) for each in RULES), (parse_grant("erp@erp.test bearer"),))
JOB = Brief("goal", (), Path(), "", scope=SCOPE, tools=("shell", "browser_*"))
PLAN = Plan(
    (
        Step("first", "One.", ("shell",), ("GET erp.test/a",), ()),
        Step("second", "Two.", ("shell",), (), ()),
        Step("third", "Three.", ("shell",), ("GET erp.test/b",), ("erp",)),
    )
)
NEW = Step("new", "New.", (), (), ())


def test_only_the_step_being_taken_changes_and_new_ones_stand_behind_it() -> None:
    made = amend(PLAN, Amendment("second", ("GET doc.test/x",), ("erp",), ("browser_*",), (NEW,)))
    assert [each.name for each in made.steps] == ["first", "second", "new", "third"]
    assert (made.steps[0], made.steps[3]) == (PLAN.steps[0], PLAN.steps[2])
    assert made.steps[1] == replace(
        PLAN.steps[1], hosts=("GET doc.test/x",), grants=("erp",), tools=("shell", "browser_*")
    )


@pytest.mark.parametrize("asked", [Amendment("none"), Amendment("second", steps=(replace(NEW, name="first"),))])
def test_an_amendment_of_what_is_not_there_or_is_already_is_refused(asked: Amendment) -> None:
    with pytest.raises(BriefError):
        amend(PLAN, asked)


def test_the_difference_is_told_in_facts() -> None:
    asked = Amendment("second", ("POST erp.test/orders",), ("erp",), steps=(replace(NEW, hosts=("GET doc.test",)),))
    assert difference(PLAN, amend(PLAN, asked)) == (
        "+ second: host POST erp.test/orders",
        "+ second: secret erp",
        "+ step new (work)",
        "+ new: host GET doc.test",
    )
    assert difference(PLAN, PLAN) == ()
    assert difference(PLAN, Plan(PLAN.steps[:2])) == ("- step third",)
    assert "another order" in difference(PLAN, Plan(PLAN.steps[::-1]))[0]
    edited = Plan((replace(PLAN.steps[0], desk="same", hosts=None, program="x\x1b"), *PLAN.steps[1:]))
    assert difference(PLAN, edited) == (
        "~ first: host: all the brief has",
        '~ first: desk is "same"',
        '~ first: program is "x\\u001b"',
    )


@pytest.mark.parametrize(
    ("asked", "approve", "expected"),
    [
        (Amendment("second", ("GET doc.test/x",)), "auto", "approved"),
        (Amendment("second", ("GET doc.test/x",)), "risky", "approved"),
        (Amendment("second", ("GET doc.test/x",)), "plan", "ask"),
        (Amendment("second", ("GET doc.test/x",)), "every", "ask"),
        (Amendment("second", tools=("browser_goto",)), "auto", "approved"),
        (Amendment("second", tools=("packages",)), "auto", "ask"),
        (Amendment("second", ("POST erp.test/orders",)), "auto", "ask"),
        (Amendment("second", grants=("erp",)), "auto", "ask"),
        (Amendment("third", ("GET doc.test/x",)), "auto", "ask"),
        (Amendment("second", steps=(NEW,)), "auto", "ask"),
        (Amendment("second", ("tunnel t.test",)), "auto", "ask"),
        (Amendment("second", ("GET new.test",)), "auto", "ask"),
        # what nobody may approve
        (Amendment("second", grants=("gold",)), "auto", "refused"),
        (Amendment("second", ("GET erp.test/admin/x",)), "auto", "refused"),
        (Amendment("second", ("tunnel new.test",)), "auto", "refused"),
        (Amendment("second", ("GET evil.example",)), "auto", "refused"),
        (Amendment("second", steps=(replace(NEW, hosts=("GET evil.example",)),)), "auto", "refused"),
    ],
)
def test_who_decides(asked: Amendment, approve: Approve, expected: str) -> None:
    ceiling = [parse_rule(each) for each in ("write *.erp.test", "write erp.test", "write doc.test", "write new.test")]
    ceiling += [parse_rule(each) for each in ("tunnel t.test", "tunnel new.test")]
    assert policy(asked, PLAN, JOB, approve, ceiling) == expected


def test_what_a_person_approved_beyond_the_brief_holds_in_that_step_alone() -> None:
    asked = Amendment("second", ("GET new.test/x", "GET doc.test"))
    wider = widen_scope(SCOPE, asked)
    assert [each.host for each in wider.rules if each.step == "second"] == ["new.test"]
    made = compile_scope(amend(PLAN, asked), wider)
    verdicts = [
        Policy(made.rules, step).judge(Target("https", "new.test", 443, "GET", "/x")).verdict
        for step in ("second", "third")
    ]
    assert verdicts == ["allow", "deny"]


def test_what_a_worker_asks_is_read_strictly() -> None:
    told = AMEND.check(
        {"reason": "why", "hosts": ["GET  Doc.test/x step=third"], "steps": '[{"name":"n","intent":"i"}]'}
    )
    assert read_amendment("second", told) == Amendment(
        "second", ("GET doc.test/x",), steps=(Step("n", "i"),), reason="why"
    )
    for wrong in ({}, {"hosts": ["deny a.test"]}, {"hosts": ["?"]}, {"steps": "{}"}, {"steps": "["}, {"steps": "[1]"}):
        with pytest.raises(BriefError):
            read_amendment("second", AMEND.check({"reason": "why", **wrong}))
