"""Tests of filling an item's name into a plan's permissions; it never chooses a host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hotdesk.brief import CLOSED, Scope, parse_rule, parse_scope, rule_text, scope_json
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step
from hotdesk.strict import parse_json
from hotdesk.swarm.fill import fill_brief, fill_plan, fill_scope, require_fillable

BRIEF = Brief("Read {item}.", (Deliverable("{item}.json", "json"),), folder=None, digest="")  # type: ignore[arg-type]
RULES = ("GET https://erp.example.test/contracts/{item}?id={item} rate=9", "deny other.example.test")


def test_rules_have_the_item_in_their_paths_and_share_their_rate() -> None:
    scope = Scope(tuple(map(parse_rule, RULES)))
    filled = fill_scope(scope, "c-1", 6)
    assert rule_text(filled.rules[0]) == "GET https://erp.example.test/contracts/c-1?id=c-1 rate=1.5"
    assert filled.rules[1] == scope.rules[1]
    assert parse_scope(parse_json(scope_json(filled))) == filled
    assert fill_scope(CLOSED, "c-1") == CLOSED


def test_steps_and_deliverables_have_it_too() -> None:
    step = Step("read", "Read {item}.", makes=("{item}.json",), files=("item.pdf",), check="test -s {item}.json")
    (filled,) = fill_plan(Plan((step,)), "c-1").steps
    assert (filled.intent, filled.makes, filled.check) == ("Read c-1.", ("c-1.json",), "test -s c-1.json")
    assert fill_brief(BRIEF, "c-1").deliverables[0].path == "c-1.json"


def test_a_host_is_never_an_items_name() -> None:
    rule = replace(parse_rule("GET https://erp.example.test/"), host="{item}.example.test")
    with pytest.raises(BriefError, match="cannot be part of a host"):
        require_fillable(replace(BRIEF, scope=Scope((rule,))))
