"""A plan as text that a person may change, and back: strictly, for what comes back is what is approved."""

from __future__ import annotations

import difflib
import json
from dataclasses import MISSING, asdict, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hotdesk.errors import BriefError
from hotdesk.plan import Action, Plan, Step, to_json


def as_draft(subject: str) -> str:
    """Write a plan for an editor; fields that say nothing are left out."""
    plan = plan_of(subject)
    steps = [spare(asdict(step), Step) for step in plan.steps]
    return json.dumps({"steps": steps, "thoughts": plan.thoughts}, indent=2, ensure_ascii=False) + "\n"


def from_draft(text: str) -> str:
    """Read an edited plan; give what is approved: every field of it."""
    return to_json(plan_of(text))


def difference(before: str, after: str) -> list[str]:
    """Give the lines that differ between two drafts, with what stands around them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "asked", "edited", lineterm="", n=2)
    return list(lines)


def plan_of(text: str) -> Plan:
    """Read a plan; `BriefError` for what is none."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise BriefError(f"the plan is no JSON: {e}; nothing is decided") from e
    plan = built(Plan, told, "the plan")
    assert isinstance(plan, Plan)
    names = [step.name for step in plan.steps]
    if not names or len(set(names)) < len(names):
        raise BriefError("a plan has at least one step, and each its own name; nothing is decided")
    return plan


def built(kind: type[Plan | Step | Action], told: object, where: str) -> Plan | Step | Action:
    """Read one part of a plan."""
    if not isinstance(told, dict):
        raise BriefError(f"{where} is no table; nothing is decided")
    hints = get_type_hints(kind)
    needed = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    if wrong := sorted((told.keys() - hints.keys()) | (needed - told.keys())):
        raise BriefError(f"{where} has no {wrong[0]!r}, or may not have it; nothing is decided")
    values: dict[str, Any] = {name: value_of(hints[name], value, f"{name} of {where}") for name, value in told.items()}
    return kind(**values)


def value_of(hint: Any, value: object, where: str) -> object:
    """Read one field."""
    if type(None) in get_args(hint):
        return None if value is None else value_of(get_args(hint)[0], value, where)
    if get_origin(hint) is Literal and value in get_args(hint):
        return value
    if get_origin(hint) is tuple and isinstance(value, list):
        part = get_args(hint)[0]
        if part in (Step, Action):
            return tuple(built(part, each, f"{number} of {where}") for number, each in enumerate(value, 1))
        if all(isinstance(each, str) for each in value):
            return tuple(value)
    if hint in (str, bool) and type(value) is hint:
        return value
    if get_origin(hint) not in (Literal, tuple) and hint not in (str, bool) and isinstance(value, dict):
        return value
    raise BriefError(f"{where} is of another kind than it can be; nothing is decided")


def spare(told: dict[str, Any], kind: type[Step]) -> dict[str, Any]:
    """Leave out fields that have their default."""
    plain = {each.name: each.default for each in fields(kind)}
    return {name: value for name, value in told.items() if value != plain[name]}
