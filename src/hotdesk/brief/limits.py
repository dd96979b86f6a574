"""Reads the limits of a brief: tools, wall, size, budget, approvals, models."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import cast, get_args

from hotdesk.brief import fields
from hotdesk.brief.brief import Approve, DeskSize, JobBudget, Models
from hotdesk.brief.keys import KEYS, explain_place, format_example
from hotdesk.brief.reserved import SWITCH
from hotdesk.brief.value import BriefValue, find_similar
from hotdesk.config import MIB, WALLS, parse_seconds
from hotdesk.errors import make_printable

_STRICT_WALLS = tuple(reversed(WALLS[1:]))
_STRICT_APPROVALS = ("every", "plan", "risky", "auto")
_MOST_TOOLS = 200
_MOST_MODELS = 8
MOST_SECONDS = 7 * 86400
_MOST_WAIT = 30 * 86400
_MOST_TOKENS = 10**12
_MOST_DOLLARS = 10**6
MOST_ACTS = 10**6
PROVIDERS = ("anthropic", "openai")
"""Providers that a brief may name. Both are reached over the network, at the operator's address; none runs a script."""
_TOOL_SHAPE = re.compile(r"[a-z][a-z0-9_]{0,63}\*?|\*")
MODEL_SHAPE = re.compile(r"[a-z]{1,32}:[A-Za-z0-9._/:@-]{1,128}")


def read_image(field: BriefValue) -> str:
    return fields.read_name(field, "image", "base")


def read_tools(brief: BriefValue) -> tuple[str, ...]:
    field = brief.get("tools", [])
    tools = fields.read_list(field, "tools", _MOST_TOOLS)
    if brief.has("tools") and not field.value:
        raise field.make_error(
            f"tools is empty, so the worker could do nothing; write {format_example(field, 'tools')}"
        )
    for each in tools:
        if not _TOOL_SHAPE.fullmatch(each.value):
            shown = make_printable(each.value[:80])
            why = (
                f"{shown!r} is neither the name of a tool nor a prefix of tool names followed by `*`; write "
                f"{format_example(field, 'tools')}"
            )
            field.faults.append(each.make_error(why))
    return tuple(each.value for each in tools)


def read_wall(field: BriefValue) -> str:
    match field.value:
        case "local" if os.environ.get(SWITCH) == "1":
            return "local"
        case "local":
            why = f"the wall local isolates nothing and is for hotdesk's own tests, which set {SWITCH}=1"
        case str(name) if name in WALLS:
            return name
        case _:
            raise _make_choice_error(field, "wall", _STRICT_WALLS, "strongest", "gvisor")
    raise field.make_error(f"{why}; write {format_example(field, 'wall')}")


def _make_choice_error(field: BriefValue, key: str, choices: Sequence[str], order: str, default: str) -> ValueError:
    """Return the error for an unknown choice. It suggests a similar one or `default`, which must be a strict one."""
    meant = find_similar(field.value, choices) if isinstance(field.value, str) else ""
    return field.make_error(
        f"{key} must be one of {', '.join(choices)} ({order} first), not {field.show()}; write "
        f"{field.write(key, meant or default)}"
    )


def read_sensitive_wall(brief: BriefValue) -> str:
    """Read the wall of steps that use secrets or read untrusted files; return `""` if it is not set."""
    if not brief.has("sensitive_wall"):
        return ""
    field = brief.get("sensitive_wall")
    if not isinstance(field.value, str) or field.value not in WALLS[1:]:
        raise _make_choice_error(field, "sensitive_wall", _STRICT_WALLS, "strongest", "gvisor")
    return field.value


def read_memory(brief: BriefValue) -> str:
    """Read the name of the shared memory; return `""` if there is none."""
    return fields.read_name(brief.get("memory"), "memory", "invoices") if brief.has("memory") else ""


def read_size(field: BriefValue) -> DeskSize:
    field.require_table("size", ("cpus", "memory", "disk"), format_example(field, "size"), explain_place)
    usual = DeskSize()
    cpus = field.attempt(lambda: fields.read_number(field, "size.cpus", 0.01, 1024), None)
    return DeskSize(
        cpus=usual.cpus if cpus is None else float(cpus),
        memory=field.attempt(lambda: fields.read_size(field, "size.memory", usual.memory, 16 * MIB), 0),
        disk=field.attempt(lambda: fields.read_size(field, "size.disk", usual.disk, MIB), 0),
    )


def read_budget(field: BriefValue) -> JobBudget:
    field.require_table("budget", ("tokens", "dollars", "acts"), format_example(field, "budget"), explain_place)
    return _read_amounts(field, "budget", 0.01)


def read_item_budget(field: BriefValue) -> JobBudget:
    return _read_amounts(field, "each", 0.0001)


def _read_amounts(field: BriefValue, table: str, least_dollars: float) -> JobBudget:
    dollars = field.attempt(lambda: fields.read_number(field, f"{table}.dollars", least_dollars, _MOST_DOLLARS), None)
    return JobBudget(
        tokens=field.attempt(lambda: fields.count(field, f"{table}.tokens", _MOST_TOKENS), None),
        dollars=None if dollars is None else float(dollars),
        acts=field.attempt(lambda: fields.count(field, f"{table}.acts", MOST_ACTS), None),
    )


def read_seconds(brief: BriefValue) -> float:
    found = fields.read_number(brief, "seconds", 1, MOST_SECONDS)
    return 900.0 if found is None else float(found)


def read_wait(field: BriefValue) -> float:
    """Read how long to wait for a person's answer, in seconds or as `2h`."""
    seconds = parse_seconds(field.value)
    if seconds is None or not 1 <= seconds <= _MOST_WAIT:
        most = f"30 days ({_MOST_WAIT} seconds)"
        raise field.make_error(
            f"wait must be a time from 1 second to {most}, not {field.show()}; write {format_example(field, 'wait')}"
        )
    return seconds


def read_approve(field: BriefValue) -> Approve:
    if not isinstance(field.value, str) or field.value not in get_args(Approve):
        raise _make_choice_error(field, "approve", _STRICT_APPROVALS, "strictest", "plan")
    return cast(Approve, field.value)


def read_models(brief: BriefValue) -> Models:
    field = brief.get("models", {})
    field.require_table("models", ("plan", "act"), format_example(field, "models"), explain_place)
    if brief.has("models") and field.lacks("plan", ("plan", "act")):
        raise field.make_error(f"models has no plan model; write {format_example(field, 'models.plan')}")
    return Models(*(_read_model_list(field.get(key)) if field.has(key) else () for key in ("plan", "act")))


def _read_model_list(field: BriefValue) -> tuple[str, ...]:
    if isinstance(field.value, str):
        return (_read_model(field),)
    if not isinstance(field.value, list) or not 1 <= len(field.value) <= _MOST_MODELS:
        instead = format_example(field, "models.plan")
        raise field.make_error(
            f"models.{field.where[-1]} must be a model or a list of 1 to {_MOST_MODELS} models, not {field.show()}; "
            f"write {instead}"
        )
    names = [field.attempt(partial(_read_model, each), "") for each in field.list_items()]
    return tuple(dict.fromkeys(names))


def read_look(field: BriefValue) -> str:
    return "" if field.value == "" else _read_model(field)


def _read_model(field: BriefValue) -> str:
    """Read a model's name; addresses and scripts are refused."""
    name = field.value if isinstance(field.value, str) else ""
    provider, _, model = name.partition(":")
    if not MODEL_SHAPE.fullmatch(name) or provider not in PROVIDERS or "//" in model:
        key = ".".join(part for part in field.where if isinstance(part, str))
        shown = make_printable(str(field.value)[:80])
        remedy = field.write(key, KEYS["look"])
        raise field.make_error(
            f"{shown!r} is not a model name of the form PROVIDER:MODEL, where PROVIDER is {' or '.join(PROVIDERS)}; "
            f"write {remedy}"
        )
    return name
