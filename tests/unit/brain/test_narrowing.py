"""Tests of narrowing a step's rules and names to the brief: never more than it allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.brain.narrowing import narrow_plan
from hotdesk.brief import Scope, parse_grant, parse_rule
from hotdesk.plan import Plan, Step

RULES = ("GET https://erp.test/login? step=export", "read shop.test step=buy", "read doc.test?", "deny doc.test/x/**")
SCOPE = Scope(tuple(map(parse_rule, RULES)), (parse_grant("erp@erp.test step=export"),))
FETCH = Step("fetch", "Fetch.", (), ("GET https://erp.test/login",), ("erp",))
READS = Step("reads", "Read.", (), ("GET doc.test/a",), ())


def names(*steps: Step, scope: Scope = SCOPE) -> list[str]:
    return [each.name for each in narrow_plan(Plan(steps), scope).steps]


def test_a_step_gets_the_one_name_that_the_brief_has_for_what_it_lists() -> None:
    assert names(FETCH, READS) == ["export", "reads"]
    assert narrow_plan(Plan((FETCH, READS)), SCOPE).steps[0].hosts == ("GET https://erp.test/login?",)
    assert narrow_plan(Plan((FETCH, READS)), SCOPE).steps[1].hosts == ("GET doc.test/a?",)


def test_tools_that_every_step_has_need_not_be_allowed() -> None:
    (step,) = narrow_plan(Plan((replace(READS, tools=("ask_person", "shell", "recall")),)), SCOPE).steps
    assert step.tools == ("shell",)
    (every,) = narrow_plan(Plan((replace(READS, tools=None, hosts=None),)), SCOPE).steps
    assert (every.tools, every.hosts) == (None, None)


@pytest.mark.parametrize(
    "steps",
    [
        (FETCH, replace(READS, name="export")),
        (FETCH, replace(FETCH, name="again")),
        (replace(FETCH, hosts=("GET https://erp.test/login", "GET evil.test")),),
        (replace(FETCH, hosts=("GET https://erp.test/login", "GET shop.test")),),
        (replace(FETCH, name="buy"),),
        (replace(FETCH, grants=("gold",)),),
        (replace(FETCH, hosts=("?",)),),
        (replace(FETCH, hosts=(), grants=()),),
    ],
    ids=["taken", "two want it", "beyond the brief", "two steps' rules", "named", "no secret", "no rule", "nothing"],
)
def test_a_step_is_renamed_only_if_nothing_else_is_wrong(steps: tuple[Step, ...]) -> None:
    assert names(*steps) == [each.name for each in steps]


def test_a_step_that_matches_two_names_is_not_renamed() -> None:
    rules = (*SCOPE.rules, parse_rule("GET https://erp.test/login? step=other"))
    assert names(replace(FETCH, grants=()), scope=replace(SCOPE, rules=rules)) == ["fetch"]


def test_a_rule_is_not_narrowed_to_something_the_brief_denies() -> None:
    step = replace(READS, hosts=("GET doc.test/x/y", "deny doc.test", "no rule at all", "GET doc.test/a?"))
    assert narrow_plan(Plan((step,)), SCOPE).steps[0] == step
