"""Replies, observations and histories as JSON, and back: read strictly, what is missing as it is by default."""

from __future__ import annotations

import base64
import binascii
from dataclasses import fields
from typing import Any, TypeAlias, get_args

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results, Stop, TokenUsage
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation

Written: TypeAlias = dict[str, Any]
Kinds: TypeAlias = dict[str, tuple[type, ...]]
COUNTS: Kinds = dict.fromkeys(("input", "output", "cached", "stored", "up"), (int,))
USAGE: Kinds = COUNTS | {"dollars": (float, int, type(None))}
CALL: Kinds = {"id": (str,), "tool": (str,), "arguments": (object,)}
REPLY: Kinds = dict.fromkeys(("text", "thought", "stop", "model", "dialect"), (str,))
REPLY |= {"calls": (list,), "native": (list,), "usage": (dict,)}
SEEN: Kinds = dict.fromkeys(("text", "image", "media", "fallback", "note"), (str,)) | {"ok": (bool,)}


def reply_to_json(reply: Reply) -> Written:
    """Write a reply."""
    return {
        "text": reply.text,
        "thought": reply.thought,
        "calls": [call_to_json(call) for call in reply.calls],
        "stop": reply.stop,
        "usage": {field.name: getattr(reply.usage, field.name) for field in fields(TokenUsage)},
        "model": reply.model,
        "dialect": reply.dialect,
        "native": list(reply.native),
    }


def reply_from_json(given: object) -> Reply:
    """Read a reply; `ModelError` says what is wrong with it."""
    told = taken(given, "a reply", REPLY)
    if told.get("stop", "end") not in get_args(Stop):
        raise wrong("a reply", f"it stops by {told['stop']!r:.40}")
    if not all(isinstance(item, dict) for item in told.get("native", [])):
        raise wrong("a reply", "native holds something that is no object")
    calls = tuple(call_from_json(call) for call in told.pop("calls", []))
    usage = TokenUsage(**taken(told.pop("usage", {}), "what a reply cost", USAGE))
    return Reply(**(told | {"calls": calls, "usage": usage, "native": tuple(told.get("native", []))}))


def call_to_json(call: Call) -> Written:
    """Write a call."""
    return {"id": call.id, "tool": call.tool, "arguments": call.arguments}


def call_from_json(given: object) -> Call:
    """Read a call."""
    return Call(**taken(given, "a call", CALL, needed=("id", "tool", "arguments")))


def observation_to_json(seen: Observation) -> Written:
    """Write an observation, its picture in base64."""
    told = {field.name: getattr(seen, field.name) for field in fields(Observation)}
    return told | {"image": base64.b64encode(seen.image).decode()}


def observation_from_json(given: object) -> Observation:
    """Read an observation."""
    told = taken(given, "an observation", SEEN)
    try:
        return Observation(**(told | {"image": base64.b64decode(told.get("image", ""), validate=True)}))
    except (binascii.Error, ValueError) as e:
        raise wrong("an observation", "its picture is no base64") from e


def item_to_json(item: Item) -> Written:
    """Write an item of a history, by its kind."""
    if isinstance(item, OurMessage):
        return {"told": item.text}
    if isinstance(item, Reply):
        return {"reply": reply_to_json(item)}
    return {"results": [{"call": call_to_json(call), "seen": observation_to_json(seen)} for call, seen in item.seen]}


def item_from_json(given: object) -> Item:
    """Read an item of a history."""
    match given:
        case {"told": str(text), **rest} if not rest:
            return OurMessage(text)
        case {"reply": reply, **rest} if not rest:
            return reply_from_json(reply)
        case {"results": list(results), **rest} if not rest:
            return Results(tuple(result_from_json(each) for each in results))
    raise wrong("an item", "it is none of told, reply and results, or more than one")


def result_from_json(given: object) -> tuple[Call, Observation]:
    """Read a call and what came of it."""
    told = taken(given, "a result", {"call": (dict,), "seen": (dict,)}, needed=("call", "seen"))
    return call_from_json(told["call"]), observation_from_json(told["seen"])


def taken(given: object, what: str, kinds: Kinds, needed: tuple[str, ...] = ()) -> Written:
    """Give an object's fields, each of a kind it may be."""
    if not isinstance(given, dict):
        raise wrong(what, "it is no object")
    for name, value in given.items():
        if name not in kinds:
            raise wrong(what, f"it has {name!r:.40}, which nobody knows")
        if object not in kinds[name] and type(value) not in kinds[name]:
            raise wrong(what, f"{name} is {value!r:.40}")
    if missing := [name for name in needed if name not in given]:
        raise wrong(what, f"it has no {missing[0]}")
    return dict(given)


def wrong(what: str, why: str) -> ModelError:
    """Say that something written cannot be read."""
    return ModelError(f"{what} cannot be read: {why}; it was written by something else, or changed since")
