"""With what a brief has its job done, and how far it may go."""

from __future__ import annotations

import os
import re
from typing import cast, get_args

from hotdesk.brief import fields
from hotdesk.brief.brief import Approve, DeskSize, JobBudget, Models
from hotdesk.brief.keys import KEYS, example
from hotdesk.brief.reserved import SWITCH
from hotdesk.brief.value import BriefValue
from hotdesk.config import MIB, WALLS, parse_seconds
from hotdesk.errors import printable

MOST_TOOLS = 200
MOST_MODELS = 8
MOST_SECONDS = 7 * 86400
MOST_WAIT = 30 * 86400
MOST_TOKENS = 10**12
MOST_DOLLARS = 10**6
MOST_ACTS = 10**6
PROVIDERS = ("anthropic", "openai", "chat")
"""Whom a brief may name: who is asked over a network, at an address the operator chose. Never a script."""
TOOL_SHAPE = re.compile(r"[a-z][a-z0-9_]{0,63}\*?|\*")
MODEL_SHAPE = re.compile(r"[a-z]{1,32}:[A-Za-z0-9._/:@-]{1,128}")


def read_image(told: BriefValue) -> str:
    """Read which image its desks are opened from."""
    return fields.name(told, "image", "base")


def read_tools(brief: BriefValue) -> tuple[str, ...]:
    """Read which tools it may use."""
    told = brief.get("tools", [])
    tools = fields.listed(told, "tools", MOST_TOOLS)
    if brief.has("tools") and not tools:
        raise told.wrong(f"without a tool nothing can be done; write {example(told, 'tools')}")
    for each in tools:
        if not TOOL_SHAPE.fullmatch(each.held):
            shown = printable(each.held[:80])
            raise each.wrong(f"{shown!r} is no tool, nor how several begin; write {example(told, 'tools')}")
    return tuple(each.held for each in tools)


def read_wall(told: BriefValue) -> str:
    """Read what stands between a desk and this machine."""
    match told.held:
        case "container":
            return "container"
        case "local" if os.environ.get(SWITCH) == "1":
            return "local"
        case "local":
            why = f"local is no wall and exists for tests, with {SWITCH}=1"
        case str() if told.held in WALLS:
            why = f"the wall {told.held} is not there yet"
        case _:
            why = f"wall is none of {', '.join(WALLS[1:])}"
    raise told.wrong(f"{why}; write {example(told, 'wall')}")


def read_size(told: BriefValue) -> DeskSize:
    """Read how large its desk is."""
    told.table("size", ("cpus", "memory", "disk"), example(told, "size"))
    usual = DeskSize()
    cpus = fields.number(told, "size.cpus", 0.01, 1024)
    return DeskSize(
        cpus=usual.cpus if cpus is None else float(cpus),
        memory=fields.size(told, "size.memory", usual.memory, 16 * MIB),
        disk=fields.size(told, "size.disk", usual.disk, MIB),
    )


def read_budget(told: BriefValue) -> JobBudget:
    """Read what it may use."""
    told.table("budget", ("tokens", "dollars", "acts"), example(told, "budget"))
    dollars = fields.number(told, "budget.dollars", 0.01, MOST_DOLLARS)
    return JobBudget(
        tokens=fields.count(told, "budget.tokens", MOST_TOKENS),
        dollars=None if dollars is None else float(dollars),
        acts=fields.count(told, "budget.acts", MOST_ACTS),
    )


def read_seconds(brief: BriefValue) -> float:
    """Read how long it may take."""
    found = fields.number(brief, "seconds", 1, MOST_SECONDS)
    return 900.0 if found is None else float(found)


def read_wait(told: BriefValue) -> float:
    """Read how long a person's answer is waited for, in seconds or as `2h`."""
    seconds = parse_seconds(told.held)
    if seconds is None or not 1 <= seconds <= MOST_WAIT:
        raise told.wrong(f"wait is no time from 1 to {MOST_WAIT} seconds; write {example(told, 'wait')}")
    return seconds


def read_approve(told: BriefValue) -> Approve:
    """Read who admits the plan."""
    if not isinstance(told.held, str) or told.held not in get_args(Approve):
        raise told.wrong(f"approve is none of {', '.join(get_args(Approve))}; write {example(told, 'approve')}")
    return cast(Approve, told.held)


def read_models(brief: BriefValue) -> Models:
    """Read who plans and who takes the steps."""
    told = brief.get("models", {})
    told.table("models", ("plan", "act"), example(told, "models"))
    if brief.has("models") and not told.has("plan"):
        raise told.wrong(f"models names nobody to plan; write {example(told, 'models.plan')}")
    return Models(*(several(told.get(key)) if told.has(key) else () for key in ("plan", "act")))


def several(told: BriefValue) -> tuple[str, ...]:
    """Read a model, or those that are tried one after the other."""
    if isinstance(told.held, str):
        return (read_model(told),)
    if not isinstance(told.held, list) or not 1 <= len(told.held) <= MOST_MODELS:
        instead = example(told, "models.plan")
        raise told.wrong(f"{told.where[-1]} is no model nor a list of 1 to {MOST_MODELS}; write {instead}")
    return tuple(dict.fromkeys(read_model(each) for each in told.each()))


def read_look(told: BriefValue) -> str:
    """Read which model may be shown pictures."""
    return "" if told.held == "" else read_model(told)


def read_model(told: BriefValue) -> str:
    """Read a model's name: never an address, never a script."""
    name = told.held if isinstance(told.held, str) else ""
    provider, _, model = name.partition(":")
    if not MODEL_SHAPE.fullmatch(name) or provider not in PROVIDERS or "//" in model:
        key = ".".join(part for part in told.where if isinstance(part, str))
        shown = printable(str(told.held)[:80])
        remedy = told.write(key, KEYS["look"])
        raise told.wrong(f"{shown!r} is no model of {', '.join(PROVIDERS)}; write {remedy}")
    return name
