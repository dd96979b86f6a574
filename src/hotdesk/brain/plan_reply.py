"""Finds and reads the plan in a model's reply. The plan itself is read strictly, its packaging tolerantly.

Prose around the plan, unknown fields, `null`, one name instead of a list and paths with the home folder change nothing
about what the plan permits, so they are not reported as errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from hotdesk.brain.models.seam import Reply
from hotdesk.plan import EXAMPLE, MAX_PLAN_CHARS, Plan, Step, make_error, read_part
from hotdesk.strict import StrictError, parse_json
from hotdesk.tool import Parameter, Tool, get_text

PLAN = Tool(
    "plan",
    "Submit the plan: JSON with `steps` and, optionally, `thoughts` that explain it.",
    (Parameter("plan", "text", "the plan as JSON", required=True, longest=MAX_PLAN_CHARS),),
    example={"plan": EXAMPLE},
)
HOME_PREFIXES = ("/home/user/", "~/")
_LISTS = ("tools", "hosts", "grants", "files", "makes")
_PATHS = ("files", "makes")
_MAX_OBJECTS = 50
"""Positions in a text at which reading an object is tried."""


def read_reply(reply: Reply) -> Plan:
    """Read the plan in a reply; raise `BriefError` or `ToolArgumentError` if its form is invalid."""
    plan = read_part(Plan, _tidy_plan(_find_plan(_find_plan_text(reply))))
    return restrict_steps(plan)


def _find_plan_text(reply: Reply) -> str:
    """Return the text with the plan: the tool's argument, or else the text of the reply."""
    calls = [call for call in reply.calls if call.tool == PLAN.name]
    if not calls:
        if "{" not in reply.text:
            raise PLAN.refuse("no plan was submitted; call the tool `plan`, the only tool while planning")
        return reply.text
    arguments = calls[-1].arguments
    inner = (
        arguments.get("plan", arguments if "steps" in arguments else None) if isinstance(arguments, Mapping) else None
    )
    if isinstance(inner, Mapping):
        try:
            return json.dumps(inner, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise PLAN.refuse(
                "the plan has values that JSON does not have, such as NaN or Infinity; submit plain JSON"
            ) from None
    return get_text(PLAN.check(arguments), "plan")


def _find_plan(text: str) -> object:
    """Decode the first JSON object in a text that has a plan; if none has, the first object, to report its error."""
    if len(text) > MAX_PLAN_CHARS:
        raise make_error("the plan", f"it is longer than {MAX_PLAN_CHARS:,} characters", "write fewer, shorter steps")
    place, decoder, first = text.find("{"), json.JSONDecoder(), ""
    for _ in range(_MAX_OBJECTS):
        if place < 0:
            break
        try:
            found, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            first = first or text[place:]
            place = text.find("{", place + 1)
            continue
        if "steps" in found or "plan" in found:
            return _load(text[place:end])
        first = first or text[place:end]
        place = text.find("{", end)
    return _load(first or text)


def _load(text: str) -> object:
    try:
        return parse_json(text, overflow=True)
    except StrictError as e:
        raise make_error("the plan", f"it is not JSON: {str(e)[:200]}", f"write it like {EXAMPLE}") from None


def _tidy_plan(data: object) -> object:
    """Remove empty fields from a plan; invalid ones stay, for the strict reader."""
    if not isinstance(data, dict):
        return data
    inner = data.get("plan")
    table = _drop_unknown(inner if isinstance(inner, dict) and "steps" not in data else data, Plan)
    if isinstance(steps := table.get("steps"), list):
        table["steps"] = [tidy_step(each) for each in steps]
    return table


def tidy_step(data: object) -> object:
    """Return a step without `null` and unknown fields, with lists as lists, and paths relative to the home folder."""
    if not isinstance(data, dict):
        return data
    table = _drop_unknown(data, Step)
    for name in _LISTS:
        if isinstance(value := table.get(name), str):
            table[name] = [value] if value else []
    for name in _PATHS:
        if isinstance(value := table.get(name), list):
            table[name] = [strip_home(each) if isinstance(each, str) else each for each in value]
    return table


def _drop_unknown(data: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Drop `null` and unknown fields; a name that resembles a field's stays, because it is a mistake."""
    names = [each.name for each in fields(kind)]
    table = {str(key): value for key, value in data.items() if value is not None}
    return {key: value for key, value in table.items() if key in names or get_close_matches(key, names, 1, 0.75)}


def strip_home(path: str) -> str:
    """Return a path without the home folder at its beginning."""
    return next((path.removeprefix(each) for each in HOME_PREFIXES if path.startswith(each)), path)


def restrict_steps(plan: Plan) -> Plan:
    """Set hosts and secrets that a model left out to none; only people and scripts mean all by leaving them out."""
    return replace(plan, steps=tuple(restrict_step(step) for step in plan.steps))


def restrict_step(step: Step) -> Step:
    """Set hosts and secrets that a model's step leaves out to none."""
    return replace(step, hosts=step.hosts or (), grants=step.grants or ())
