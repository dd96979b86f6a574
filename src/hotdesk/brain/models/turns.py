"""A history as turns: every call has its result; turns of another provider are rewritten as plain text."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hotdesk.brain.models.seam import Item, OurMessage, Reply, Results
from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation

_UNUSED = Observation("Not executed: the work was stopped before this call.", ok=False)
_GO_ON = "Continue."
NOTHING = "(nothing)"
COMPUTER = "computer"
"""The name of every provider's native computer tool."""


@dataclass(frozen=True, slots=True)
class HistoryTurn:
    """A reply, and the result of each of its calls."""

    reply: Reply
    pairs: tuple[tuple[Call, Observation], ...]
    number: int
    """Its index in the history."""


Spoken: TypeAlias = OurMessage | HistoryTurn


def join_turns(history: Sequence[Item]) -> list[Spoken]:
    """Join replies with their results; the last item is one that a model can reply to."""
    found: list[Spoken] = []
    items = list(history)
    for item, after in zip(items, [*items[1:], None], strict=True):
        if isinstance(item, Reply):
            found.append(HistoryTurn(item, _pair_results(item, after), len(found)))
        elif isinstance(item, OurMessage):
            found.append(item)
        elif not (found and isinstance(found[-1], HistoryTurn) and found[-1].pairs):
            raise ModelError("the stored conversation is damaged: it has tool results without a call; start a new job")
    if not found or (isinstance(found[-1], HistoryTurn) and not found[-1].pairs):
        found.append(OurMessage(_GO_ON))
    return found


def _pair_results(reply: Reply, after: Item | None) -> tuple[tuple[Call, Observation], ...]:
    """Return each call's result, in the calls' order; a call without a result was not executed."""
    observations = {call.id: observation for call, observation in after.pairs} if isinstance(after, Results) else {}
    return tuple((call, observations.get(call.id, _UNUSED)) for call in reply.calls)


def is_own(turn: HistoryTurn, dialect: str, name: str, screen: bool) -> bool:
    """Return whether a reply's items can be sent back verbatim.

    Encrypted reasoning is valid only for the model that produced it; calls of the native computer tool need that tool.
    """
    reply = turn.reply
    computer = any(call.tool == COMPUTER for call in reply.calls)
    return bool(reply.native) and reply.dialect == dialect and reply.model in ("", name) and (screen or not computer)


def list_texts(observation: Observation, flagged: bool = True) -> list[str]:
    """Return the texts of an observation: its own, and then hotdesk's remarks about it.

    `flagged` is whether the provider's format marks failed results itself.
    """
    texts = [] if observation.ok or flagged else ["(this failed)"]
    texts += [observation.text] if observation.text else []
    if observation.fallback:
        texts.append(f"(done with a fallback: {observation.fallback})")
    if observation.note:
        texts.append(f"(note: {observation.note})")
    return texts if texts or observation.image else [NOTHING]


def encode_data_url(observation: Observation) -> str:
    return f"data:{observation.media};base64,{base64.b64encode(observation.image).decode()}"


def get_arguments(call: Call) -> dict[str, object]:
    if isinstance(call.arguments, dict) and all(isinstance(name, str) for name in call.arguments):
        return dict(call.arguments)
    return {"arguments": call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)}


def describe_native_uses(turn: HistoryTurn) -> Iterator[str]:
    for call, observation in turn.pairs:
        if call.tool == COMPUTER:
            yield f"I used the computer: {json.dumps(get_arguments(call), ensure_ascii=False)}"
            yield from (f"Result: {text}" for text in list_texts(observation))


def assign_call_ids(turn: HistoryTurn) -> dict[str, str]:
    """Give each foreign call a unique id that every provider accepts."""
    return {call.id: f"call_{turn.number}_{n}" for n, call in enumerate(turn.reply.calls)}
