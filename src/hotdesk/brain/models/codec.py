"""Replies, observations and histories as JSON, and back: read strictly, with defaults for missing fields."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import Any, TypeAlias, TypeVar

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results, TokenUsage
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError
from hotdesk.strict import StrictError, read
from hotdesk.tool import Call, Observation

Written: TypeAlias = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """A call and its result."""

    call: Call
    seen: Observation


def reply_to_json(reply: Reply) -> Written:
    return {
        "text": reply.text,
        "thought": reply.thought,
        "calls": [call_to_json(call) for call in reply.calls],
        "stop": reply.stop,
        "usage": {field.name: getattr(reply.usage, field.name) for field in fields(TokenUsage)},
        "model": reply.model,
        "dialect": reply.dialect,
        "native": list(reply.native),
        **({"prefix": reply.prefix} if reply.prefix else {}),
    }


def reply_from_json(data: object) -> Reply:
    """Read a reply; raise `ModelError` if it is invalid."""
    return read_record(Reply, data, "a reply")


def check_reply(reply: Reply) -> None:
    """Raise `ValueError` if a stored reply could not be read again: a provider sent a value of another type."""
    read(Reply, reply_to_json(reply))


def call_to_json(call: Call) -> Written:
    return {"id": call.id, "tool": call.tool, "arguments": call.arguments}


def observation_to_json(observation: Observation) -> Written:
    values = {field.name: getattr(observation, field.name) for field in fields(Observation)}
    return values | {"image": base64.b64encode(observation.image).decode()}


def observation_from_json(data: object) -> Observation:
    return read_record(Observation, data, "an observation")


def item_to_json(item: Item) -> Written:
    if isinstance(item, OurMessage):
        return {"told": item.text}
    if isinstance(item, Reply):
        return {"reply": reply_to_json(item)}
    return {
        "results": [
            {"call": call_to_json(call), "seen": observation_to_json(observation)} for call, observation in item.pairs
        ]
    }


def item_from_json(data: object) -> Item:
    match data:
        case {"told": str(text), **rest} if not rest:
            return OurMessage(text)
        case {"reply": reply, **rest} if not rest:
            return reply_from_json(reply)
        case {"results": list(results), **rest} if not rest:
            records = [read_record(RecordedResult, each, "a tool result") for each in results]
            return Results(tuple((each.call, each.seen) for each in records))
    raise build_error("an item of the history", "it must have exactly one of the keys told, reply, results")


def read_record(kind: type[T], data: object, what: str) -> T:
    try:
        return read(kind, data)
    except StrictError as e:
        raise build_error(what, str(e)) from None


def build_error(what: str, why: str) -> ModelError:
    return ModelError(f"{what} cannot be read: {why}; another program wrote the data, or it was changed later")
