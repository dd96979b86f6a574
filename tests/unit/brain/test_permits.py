"""Tests of what a plan permits: never more than its brief, and without asking only what it lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotdesk.brain.permits import compile_scope, has_memory, is_risky, needs_fresh, select_tools
from hotdesk.brief import Rule, Scope, parse_grant, parse_rule, parse_scope, rule_text, scope_json
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.door.policy.policy import Policy
from hotdesk.door.policy.target import Target
from hotdesk.plan import Plan, Step
from hotdesk.tool import Tool

GRANTS = ("erp@erp.test bearer", "shop@shop.test bearer step=buy")
METHODS = ("", "read", "write", "GET", "POST", "GET,POST", "GET,HEAD,POST")
HOSTS = ("b.a.test", "b.a.test", "*.a.test", "a.test")
PATHS = ("", "/", "/x", "/x/y", "/x/*", "/x/**", "/*", "/**/y")
QUERIES = ("", "", "", "", "?", "?q", "?q=1")


def scope(*rules: str, grants: tuple[str, ...] = ()) -> Scope:
    return Scope(tuple(parse_rule(each) for each in rules), tuple(parse_grant(each) for each in grants))


def get(host: str, path: str = "/", method: str = "GET") -> Target:
    return Target("https", host, 443, method, path)


def verdict(compiled: Scope, step: str, target: Target) -> str:
    return Policy(compiled.rules, step).judge(target).verdict


def plan(*steps: Step) -> Plan:
    return Plan(steps)


def test_a_step_reaches_listed_hosts_and_must_ask_for_the_rest_of_the_brief() -> None:
    brief = scope("read erp.test", "POST erp.test/orders", "read shop.test")
    made = compile_scope(plan(Step("one", "", hosts=("GET erp.test/a/*",)), Step("two", "", hosts=())), brief)
    assert verdict(made, "one", get("erp.test", "/a/b")) == "allow"
    assert verdict(made, "one", get("erp.test", "/b")) == "ask"
    assert verdict(made, "one", get("erp.test", "/orders", "POST")) == "ask"
    assert verdict(made, "one", get("shop.test")) == "ask"
    assert verdict(made, "one", get("other.test")) == "deny"
    assert verdict(made, "two", get("erp.test", "/a/b")) == "ask"


def test_ask_and_deny_rules_of_the_brief_still_apply() -> None:
    brief = scope("write erp.test", "ask POST erp.test/pay", "deny erp.test/admin/**")
    made = compile_scope(plan(Step("one", "", hosts=("GET erp.test/x", "POST erp.test/pay", "POST erp.test/a"))), brief)
    assert verdict(made, "one", get("erp.test", "/pay", "POST")) == "ask"
    assert verdict(made, "one", get("erp.test", "/a", "POST")) == "allow"
    assert verdict(made, "one", get("erp.test", "/admin/x")) == "deny"


def test_a_step_that_lists_nothing_has_what_the_brief_has_for_it() -> None:
    brief = scope("read erp.test up=1M", "read shop.test step=buy", grants=GRANTS)
    assert compile_scope(plan(Step("one", ""), Step("buy", "")), brief).rules == brief.rules
    made = compile_scope(plan(Step("one", ""), Step("two", "", hosts=())), brief)
    assert verdict(made, "one", get("erp.test")) == "allow"
    assert verdict(made, "two", get("erp.test")) == "ask"
    assert verdict(made, "one", get("shop.test")) == "deny"


def test_a_plan_beyond_the_brief_permits_nothing_more() -> None:
    made = compile_scope(plan(Step("one", "", hosts=("POST erp.test/x", "GET evil.test"))), scope("read erp.test"))
    assert verdict(made, "one", get("erp.test", "/x", "POST")) == "deny"
    assert verdict(made, "one", get("evil.test")) == "deny"


def test_bytes_are_shared_among_the_rules_planned_under_one_of_the_briefs() -> None:
    brief = scope("read erp.test up=1M private rate=5")
    steps = (
        Step("one", "", hosts=("GET erp.test/a", "GET erp.test/b up=10")),
        Step("two", "", hosts=("GET erp.test/c",)),
    )
    made = [each for each in compile_scope(plan(*steps), brief).rules if each.verdict == "allow"]
    assert [each.up for each in made] == [(1 << 20) // 3, 10, (1 << 20) // 3]
    assert all(each.private and each.rate == 5 for each in made)


def test_only_a_planned_tunnel_is_allowed() -> None:
    brief = scope("tunnel erp.test", "read erp.test", "tunnel shop.test")
    made = compile_scope(plan(Step("one", "", hosts=("tunnel erp.test",)), Step("two", "", hosts=())), brief)
    assert Policy(made.rules, "one").tunnel("erp.test", 443)
    assert not Policy(made.rules, "one").tunnel("shop.test", 443)
    assert not Policy(made.rules, "two").tunnel("erp.test", 443)


def test_grants_live_in_the_steps_that_list_them() -> None:
    brief = scope("read erp.test", "read shop.test", grants=GRANTS)
    steps = (Step("one", "", grants=()), Step("buy", "", grants=("erp", "shop")))
    assert [(each.secret, each.step) for each in compile_scope(plan(*steps), brief).grants] == [
        ("erp", "buy"),
        ("shop", "buy"),
    ]
    assert compile_scope(plan(Step("one", "", grants=("shop",)), steps[1]), brief).grants[0].secret != "shop"


def test_a_desk_gets_only_the_rules_of_its_steps() -> None:
    brief = scope("read erp.test up=100", "deny erp.test/x step=two", "read doc.test", grants=("erp@erp.test bearer",))
    steps = (
        Step("one", "", hosts=("GET erp.test",), grants=()),
        Step("two", "", hosts=("GET erp.test/a",), grants=("erp",)),
    )
    made = compile_scope(plan(*steps), brief, {"one"})
    assert {each.step for each in made.rules} == {"", "one"}
    assert made.grants == ()
    assert [each.up for each in made.rules if each.verdict == "allow"] == [50]
    assert verdict(made, "two", get("erp.test", "/a")) != "allow"
    (granted,) = compile_scope(plan(*steps), brief, {"two"}).grants
    assert granted.step == "two"


def some_rule(draw: Random, *verdicts: str) -> Rule:
    word, method, query, path = (draw.choice(each) for each in (verdicts, METHODS, QUERIES, PATHS))
    method = "" if word == "deny" and method == "write" else method
    query = "" if word != "allow" and query == "?" else query
    step = draw.choice(("", "", " step=one"))
    return parse_rule(f"{word} {method} {draw.choice(HOSTS)}{'/**' if query and not path else path}{query}{step}")


def some_request(draw: Random) -> Target:
    path = draw.choice(("/", "/x", "/x/y", "/x/z/y", "/y", "/x%2Fy"))
    query = draw.choice(("", "", "q=1", "q=2", "r=1", "_method=DELETE", "q=1;r=2"))
    host, method = draw.choice(("b.a.test", "a.test", "c.a.test")), draw.choice(("GET", "HEAD", "POST", "DELETE"))
    return Target("https", host, 443, method, path, query)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(min_value=0))
def test_no_plan_permits_more_than_its_brief(seed: int) -> None:
    draw = Random(seed)
    for _ in range(20):
        brief = Scope(tuple(some_rule(draw, "allow", "allow", "ask", "deny") for _ in range(draw.randrange(1, 5))))
        hosts = tuple(rule_text(replace(some_rule(draw, "allow"), step="")) for _ in range(draw.randrange(3)))
        made = compile_scope(plan(Step("one", "", hosts=hosts), Step("two", "", hosts=())), brief)
        assert parse_scope(json.loads(scope_json(made))) == made
        for target in (some_request(draw) for _ in range(20)):
            told = (target, hosts, [rule_text(each) for each in brief.rules], [rule_text(each) for each in made.rules])
            for step in ("one", "two", ""):
                before, after = (Policy(each.rules, step).judge(target) for each in (brief, made))
                if after.verdict == "allow":
                    assert before.verdict == "allow", told
                    assert step == "one"
                    assert Policy([parse_rule(each) for each in hosts]).judge(target).verdict == "allow"
                if after.verdict == "ask":
                    assert before.verdict != "deny" or before.askable, told


def job(**told: object) -> Brief:
    return Brief("goal", (), Path(), "", **told)  # type: ignore[arg-type]


def test_tools_are_those_of_the_step_among_those_of_the_brief() -> None:
    tools = [Tool(name, "") for name in ("shell", "browser_goto", "browser_click", "packages")]
    assert select_tools(Step("one", ""), job(), tools) == {each.name for each in tools}
    assert select_tools(Step("one", "", tools=("browser_*", "packages")), job(tools=("shell", "browser_*")), tools) == {
        "browser_goto",
        "browser_click",
    }
    assert select_tools(Step("one", "", tools=()), job(), tools) == frozenset()


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (Step("one", "", hosts=("GET erp.test",), grants=()), ""),
        (Step("one", "", hosts=("POST erp.test/x",), grants=()), "may write without signing in: POST erp.test/x"),
        (Step("one", "", hosts=("POST erp.test/x",), grants=("erp",)), "may write: POST erp.test/x"),
        (Step("one", "", hosts=(), grants=("erp",)), "uses the secret erp at erp.test"),
        (
            Step("one", "", hosts=("tunnel t.test",), grants=()),
            "opens a TLS tunnel that the door cannot read: tunnel t.test",
        ),
        (Step("one", "", hosts=(), grants=("erp",), desk="same"), "untrusted content"),
        (Step("one", "", hosts=(), grants=("erp",), keeps=True), "processes of the previous step"),
        (Step("one", "", hosts=(), grants=(), tools=("packages",)), "install packages"),
        (Step("one", "", risk="high", hosts=(), grants=()), ""),
    ],
)
def test_risks_of_a_step_are_derived_from_facts(step: Step, expected: str) -> None:
    facts = is_risky(step, scope("write erp.test", "tunnel t.test", grants=("erp@erp.test bearer",)))
    assert any(expected in each for each in facts) if expected else facts == ()


READS = Step("reads", "", hosts=("GET a.test",), grants=())
QUIET = Step("quiet", "", hosts=(), grants=())
PAYS = Step("pays", "", hosts=("POST erp.test/x",), grants=("erp",))


@pytest.mark.parametrize(
    ("steps", "inputs", "expected"),
    [
        ((PAYS,), True, False),
        ((READS, PAYS), False, True),
        ((QUIET, PAYS), False, False),
        ((QUIET, PAYS), True, True),
        ((READS, replace(PAYS, desk="same")), True, False),
        ((READS, replace(PAYS, keeps=True)), True, False),
        ((QUIET, replace(QUIET, name="new", desk="fresh")), False, True),
        ((PAYS, replace(PAYS, name="again")), False, True),
        ((replace(READS, desk="fresh"), PAYS), False, False),
        ((replace(READS, desk="fresh", makes=("page.html",)), PAYS), False, True),
        ((READS, QUIET), True, False),
    ],
)
def test_a_step_with_grants_after_foreign_content_needs_a_fresh_desk(
    steps: tuple[Step, ...], inputs: bool, expected: bool
) -> None:
    rules = scope("read a.test", "write erp.test", grants=("erp@erp.test bearer",))
    brief = replace(job(), scope=rules, inputs=("in.txt",) if inputs else ())
    assert needs_fresh(plan(*steps), len(steps) - 1, brief) is expected


DELIVERS = replace(PAYS, makes=("out",))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((DELIVERS, READS), True),
        ((DELIVERS, QUIET), False),
        ((DELIVERS, QUIET, READS), True),
        ((DELIVERS, replace(READS, desk="fresh")), False),
        ((DELIVERS, replace(READS, desk="fresh", makes=("page.html",))), True),
        ((DELIVERS, READS, replace(QUIET, makes=("out/a.txt",))), False),
        ((PAYS, READS), False),
        ((replace(DELIVERS, desk="same"), READS), False),
        ((DELIVERS, replace(PAYS, name="again")), False),
    ],
)
def test_a_step_with_grants_whose_deliverable_may_be_sent_back_follows_all_other_steps(
    steps: tuple[Step, ...], expected: bool
) -> None:
    rules = scope("read a.test", "write erp.test", grants=("erp@erp.test bearer",))
    brief = replace(job(), scope=rules, deliverables=(Deliverable("out/a.txt", "txt"),))
    assert needs_fresh(plan(*steps), 0, brief) is expected
    assert not needs_fresh(plan(*steps), 0, replace(brief, frozen=True))  # an item of a swarm


SECRET = replace(PAYS, name="first")
FRESH = replace(QUIET, name="new", desk="fresh")


@pytest.mark.parametrize(
    ("steps", "fresh", "sees"),
    [
        ((QUIET, PAYS), [False, True], [True, False]),
        ((SECRET, QUIET), [True, False], [False, True]),
        ((PAYS,), [False], [False]),
        ((QUIET, FRESH), [False, True], [True, False]),
        ((QUIET, replace(FRESH, files=("memory/parse.py",))), [False, True], [True, True]),
        ((QUIET, replace(FRESH, files=("memory",))), [False, True], [True, True]),
        ((QUIET, replace(FRESH, files=("memory.txt",))), [False, True], [True, False]),
        ((SECRET, replace(QUIET, keeps=True)), [True, False], [False, False]),
    ],
)
def test_no_step_with_secrets_sees_memory_or_shares_a_desk_with_one_that_does(
    steps: tuple[Step, ...], fresh: list[bool], sees: list[bool]
) -> None:
    rules = scope("read a.test", "write erp.test", grants=("erp@erp.test bearer",))
    brief = replace(job(), scope=rules, memory="orders")
    assert [needs_fresh(plan(*steps), place, brief) for place in range(len(steps))] == fresh
    assert [has_memory(plan(*steps), place, brief) for place in range(len(steps))] == sees
    assert not any(has_memory(plan(*steps), place, replace(brief, memory="")) for place in range(len(steps)))
