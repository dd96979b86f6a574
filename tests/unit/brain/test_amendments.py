"""Tests of plan amendments: the resulting plan, the reported differences, and who decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brain.amendments import (
    Amendment,
    amend,
    decide_amendment,
    describe_difference,
    read_amendment,
    widen_scope,
)
from hotdesk.brain.own_tools import AMEND_PLAN
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


def test_only_the_step_being_taken_and_what_remains_after_it_change() -> None:
    made = amend(PLAN, Amendment("second", ("GET doc.test/x",), ("erp",), ("browser_*",), steps=(NEW, PLAN.steps[2])))
    assert [each.name for each in made.steps] == ["first", "second", "new", "third"]
    assert (made.steps[0], made.steps[3]) == (PLAN.steps[0], PLAN.steps[2])
    assert made.steps[1] == replace(
        PLAN.steps[1], hosts=("GET doc.test/x",), grants=("erp",), tools=("shell", "browser_*")
    )
    assert amend(PLAN, Amendment("second", steps=())).steps == PLAN.steps[:2]
    again = amend(PLAN, Amendment("first", check="true", makes=("a",), steps=(NEW,)), finished={"second"})
    assert again.steps == (replace(PLAN.steps[0], check="true", makes=("a",)), PLAN.steps[1], NEW)


@pytest.mark.parametrize(
    "asked",
    [
        Amendment("none"),
        Amendment("second", steps=(replace(NEW, name="first"),)),
        Amendment("second", steps=(NEW, NEW)),
        Amendment("second", steps=tuple(replace(NEW, name=f"n{number}") for number in range(100))),
    ],
)
def test_an_amendment_without_effect_or_of_an_unknown_step_is_refused(asked: Amendment) -> None:
    with pytest.raises(BriefError):
        amend(PLAN, asked)


def test_the_difference_is_reported_in_facts() -> None:
    steps = (replace(NEW, hosts=("GET doc.test",)), PLAN.steps[2])
    asked = Amendment("second", ("POST erp.test/orders",), ("erp",), steps=steps)
    assert describe_difference(PLAN, amend(PLAN, asked)) == (
        "+ second: host POST erp.test/orders",
        "+ second: secret erp",
        "+ step new (work)",
        "+ new: host GET doc.test",
    )
    assert describe_difference(PLAN, PLAN) == ()
    assert describe_difference(PLAN, Plan(PLAN.steps[:2])) == ("- step third",)
    assert "order of the steps changed" in describe_difference(PLAN, Plan(PLAN.steps[::-1]))[0]
    edited = Plan((replace(PLAN.steps[0], desk="same", hosts=None, program="x\x1b"), *PLAN.steps[1:]))
    assert describe_difference(PLAN, edited) == (
        "~ first: host: all that the brief allows",
        '~ first: desk is "same"',
        '~ first: program is "x\\u001b"',
    )
    checked = amend(PLAN, Amendment("second", check="grep -q total x.csv", makes=("x.csv",)))
    assert describe_difference(PLAN, checked) == ("+ second: makes x.csv", '~ second: check is "grep -q total x.csv"')
    [long] = describe_difference(PLAN, amend(PLAN, Amendment("second", check="x" * 1000)))
    assert long.endswith("[and 802 more]")


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
        # something is at stake in the step after it
        (Amendment("second", steps=(NEW,)), "auto", "ask"),
        (Amendment("second", steps=()), "auto", "ask"),
        (Amendment("second", check="true"), "auto", "ask"),
        (Amendment("second", makes=("x",)), "risky", "ask"),
        (Amendment("second", ("tunnel t.test",)), "auto", "ask"),
        (Amendment("second", ("GET new.test",)), "auto", "ask"),
        # what no one may approve
        (Amendment("second", grants=("gold",)), "auto", "refused"),
        (Amendment("second", ("GET erp.test/admin/x",)), "auto", "refused"),
        (Amendment("second", ("tunnel new.test",)), "auto", "refused"),
        (Amendment("second", ("GET evil.example",)), "auto", "refused"),
        (Amendment("second", steps=(replace(NEW, hosts=("GET evil.example",)),)), "auto", "refused"),
    ],
)
def test_the_decision_depends_on_policy_and_difference(asked: Amendment, approve: Approve, expected: str) -> None:
    ceiling = [parse_rule(each) for each in ("write *.erp.test", "write erp.test", "write doc.test", "write new.test")]
    ceiling += [parse_rule(each) for each in ("tunnel t.test", "tunnel new.test")]
    assert decide_amendment(asked, PLAN, JOB, approve, ceiling) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Amendment("first", check="true"), "approved"),
        (Amendment("first", makes=("x",)), "approved"),
        (Amendment("first", steps=(NEW,)), "approved"),
        (Amendment("first", steps=()), "approved"),
        (Amendment("first", steps=(replace(NEW, hosts=("GET doc.test",)),)), "approved"),
        (Amendment("first", ("GET doc.test/x",), tools=("browser_goto",), check="true"), "approved"),
        (Amendment("first", steps=(replace(NEW, hosts=("GET new.test",)),)), "ask"),
        (Amendment("first", steps=(replace(NEW, hosts=("POST erp.test/orders",)),)), "ask"),
        (Amendment("first", steps=(replace(NEW, grants=("erp",)),)), "ask"),
        (Amendment("first", steps=(replace(NEW, tools=("packages",)),)), "ask"),
        (Amendment("first", steps=(replace(NEW, tools=None),)), "ask"),
        (Amendment("first", steps=(replace(NEW, grants=("gold",)),)), "refused"),
    ],
)
def test_without_risk_the_policy_admits_changes_of_check_files_and_steps(asked: Amendment, expected: str) -> None:
    plain = Plan(PLAN.steps[:2])
    for approve in ("auto", "risky"):
        assert decide_amendment(asked, plain, JOB, approve) == expected
    for approve in ("plan", "every"):
        assert decide_amendment(asked, plain, JOB, approve) in ("ask", "refused")  # type: ignore[arg-type]


def test_an_approval_beyond_the_brief_applies_only_to_its_step() -> None:
    asked = Amendment("second", ("GET new.test/x", "GET doc.test"))
    wider = widen_scope(SCOPE, asked)
    assert [each.host for each in wider.rules if each.step == "second"] == ["new.test"]
    made = compile_scope(amend(PLAN, asked), wider)
    verdicts = [
        Policy(made.rules, step).judge(Target("https", "new.test", 443, "GET", "/x")).verdict
        for step in ("second", "third")
    ]
    assert verdicts == ["allow", "deny"]


def test_a_workers_request_is_parsed_strictly() -> None:
    told = AMEND_PLAN.check(
        {
            "reason": "why",
            "hosts": ["GET  Doc.test/x step=third"],
            "check": " test -s a ",
            "makes": ["/home/user/a"],
            "steps": '[{"name":"n","intent":"i"},{"name":"third"}]',
        }
    )
    assert read_amendment(PLAN, "second", told) == Amendment(
        "second",
        ("GET doc.test/x",),
        check="test -s a",
        makes=("a",),
        steps=(Step("n", "i", hosts=(), grants=()), PLAN.steps[2]),
        reason="why",
    )
    for wrong in (
        {},
        {"hosts": ["deny a.test"]},
        {"hosts": ["?"]},
        {"steps": "{}"},
        {"steps": "["},
        {"steps": "[1]"},
        {"steps": '[{"name": "unknown"}]'},
    ):
        with pytest.raises(BriefError):
            read_amendment(PLAN, "second", AMEND_PLAN.check({"reason": "why", **wrong}))


def test_rules_of_further_steps_are_narrowed_as_a_plans_are() -> None:
    scope = Scope((parse_rule("GET https://doc.test/x?"),))
    steps = '[{"name":"n","intent":"i","hosts":["GET doc.test/x"]}]'
    found = read_amendment(PLAN, "second", {"reason": "why", "steps": steps}, scope)
    assert found.steps is not None
    assert found.steps[0].hosts == ("GET https://doc.test/x?",)
