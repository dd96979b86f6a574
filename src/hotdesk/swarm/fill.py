"""Replaces `{item}` in a plan by one item's name. Pure: permissions are fixed before any item is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hotdesk.brief import CLOSED, Rule, Scope
from hotdesk.brief.brief import Brief, Deliverable
from hotdesk.brief.swarm import PLACEHOLDER
from hotdesk.errors import BriefError
from hotdesk.plan import Plan, Step

_LEAST_RATE = 0.001
"""The lowest rate of a rule, in requests per second."""


def fill_text(text: str, key: str) -> str:
    return text.replace(PLACEHOLDER, key)


def fill_scope(scope: Scope, key: str, sharing: int = 1) -> Scope:
    """Return the egress rules of one item's desk; a rule's rate is divided by `sharing`, the number of open desks."""
    if scope == CLOSED:
        return scope
    return replace(scope, rules=tuple(_fill_rule(rule, key, sharing) for rule in scope.rules))


def _fill_rule(rule: Rule, key: str, sharing: int) -> Rule:
    query = rule.query and tuple((name, fill_text(value, key)) for name, value in rule.query)
    rate = rule.rate if rule.rate is None else max(_LEAST_RATE, float(f"{rule.rate / max(1, sharing):.15g}"))
    return replace(rule, path=fill_text(rule.path, key), query=query, rate=rate)


def fill_plan(plan: Plan, key: str) -> Plan:
    return replace(plan, steps=tuple(_fill_step(step, key) for step in plan.steps))


def _fill_step(step: Step, key: str) -> Step:
    return replace(
        step,
        intent=fill_text(step.intent, key),
        hosts=None if step.hosts is None else _fill_all(step.hosts, key),
        files=_fill_all(step.files, key),
        makes=_fill_all(step.makes, key),
        expect=fill_text(step.expect, key),
        check=fill_text(step.check, key),
        program=fill_text(step.program, key),
    )


def _fill_all(texts: Sequence[str], key: str) -> tuple[str, ...]:
    return tuple(fill_text(text, key) for text in texts)


def fill_brief(brief: Brief, key: str) -> Brief:
    deliverables = tuple(replace(each, path=fill_text(each.path, key)) for each in brief.deliverables)
    return replace(brief, goal=fill_text(brief.goal, key), deliverables=deliverables)


def require_fillable(brief: Brief) -> None:
    """Raise `BriefError` if `{item}` is part of a host: an item's name must not decide which host a desk talks to."""
    for rule in brief.scope.rules:
        if PLACEHOLDER in rule.host:
            raise BriefError(
                f"{PLACEHOLDER} cannot be part of a host in `egress`, as in {rule.host}; write the full host names"
            )
    for item in brief.deliverables:
        _require_deliverable(item)


def _require_deliverable(item: Deliverable) -> None:
    if item.path.count(PLACEHOLDER) != 1:
        raise BriefError(
            f"the path of a deliverable, {item.path}, must contain {PLACEHOLDER} exactly once, so that every item has "
            f"its own file; write it like out/{PLACEHOLDER}.json"
        )
