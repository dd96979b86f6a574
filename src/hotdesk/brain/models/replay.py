"""A replay: a model that repeats recorded replies in order, without calling a provider."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results, TokenUsage
from hotdesk.errors import ModelError, make_printable

WINDOW = 1_000_000_000
"""More than any history needs: replies do not depend on it."""
_PLACEHOLDER = re.compile(r"(hotdesk-secret-[a-z0-9][a-z0-9-]{0,63})-[a-z2-7]{26}")
"""A desk's placeholder for a secret: its name and a random part."""


class Replay:
    """Repeats replies that were recorded."""

    native_screen = True
    """Every tool that the replies use is available."""
    sees = True

    def __init__(self, of: str, replies: Sequence[Reply] | Mapping[str, Sequence[Reply]]) -> None:
        """`of` names their source. A mapping has replies for each step; a sequence is repeated regardless of steps."""
        self.name = f"replay of {make_printable(of)[:300]}"
        self.window = WINDOW
        self.steps = dict(replies) if isinstance(replies, Mapping) else None
        self.all = () if isinstance(replies, Mapping) else tuple(replies)
        self.positions: dict[str, int] = {}

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next recorded reply as this replay's own, at no cost."""
        key = request.step if self.steps is not None else ""
        replies = self.all if self.steps is None else tuple(self.steps.get(key, ()))
        number = self.positions.get(key, 0)
        if number >= len(replies):
            raise self.build_end_error(request.step, len(replies))
        self.positions[key] = number + 1
        reply = _update_placeholders(replies[number], request.history)
        return replace(reply, usage=TokenUsage(dollars=0.0), model=self.name, address="", notes=())

    def build_end_error(self, step: str, count: int) -> ModelError:
        where = f" for the step {make_printable(step)[:60]!r}" if self.steps is not None and step else ""
        return ModelError(
            f"the {self.name} has no reply left{where}: it has {count}, and the job asks for one more; "
            "this job did not run like the recorded one, so start it again without --replay"
        )

    async def close(self) -> None:
        """Do nothing: no connection is open."""


def _update_placeholders(reply: Reply, history: Sequence[Item]) -> Reply:
    """Replace the placeholders in a reply's calls by this job's: a desk makes new ones, and the recorded ones are void.

    The newest placeholder in the conversation counts. One that is not in the conversation stays as it was recorded.
    """
    shown = {match[1]: match[0] for text in _iterate_texts(history) for match in _PLACEHOLDER.finditer(text)}
    if not shown:
        return reply
    calls = tuple(replace(call, arguments=_rewrite(call.arguments, shown)) for call in reply.calls)
    return replace(reply, calls=calls)


def _iterate_texts(history: Sequence[Item]) -> Iterator[str]:
    for item in history:
        if isinstance(item, OurMessage):
            yield item.text
        elif isinstance(item, Results):
            yield from (observation.text for _, observation in item.pairs)


def _rewrite(value: object, shown: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: shown.get(match[1], match[0]), value)
    if isinstance(value, list):
        return [_rewrite(each, shown) for each in value]
    if isinstance(value, dict):
        return {key: _rewrite(each, shown) for key, each in value.items()}
    return value
