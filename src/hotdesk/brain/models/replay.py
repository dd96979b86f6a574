"""A replay: a model that says what was said before, in order. Nobody is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hotdesk.brain.models.seam import ModelRequest, Reply, TokenUsage
from hotdesk.errors import ModelError, printable

WINDOW = 1_000_000_000
"""More than any history has: what is said does not depend on it."""


class Replay:
    """Replies that were given once, given again."""

    native_screen = True
    """Whatever the replies use can be used."""
    sees = True

    def __init__(self, of: str, replies: Sequence[Reply] | Mapping[str, Sequence[Reply]]) -> None:
        """`of` says whose they are; by step each step has its own, otherwise they are given as they come."""
        self.name = f"replay of {printable(of)[:100]}"
        self.window = WINDOW
        self.steps = dict(replies) if isinstance(replies, Mapping) else None
        self.all = () if isinstance(replies, Mapping) else tuple(replies)
        self.positions: dict[str, int] = {}

    async def ask(self, request: ModelRequest) -> Reply:
        """Give the next reply; it costs nothing, this time."""
        key = request.step if self.steps is not None else ""
        replies = self.all if self.steps is None else tuple(self.steps.get(key, ()))
        number = self.positions.get(key, 0)
        if number >= len(replies):
            raise self.build_end_error(request.step, len(replies))
        self.positions[key] = number + 1
        return replace(replies[number], usage=TokenUsage(dollars=0.0))

    def build_end_error(self, step: str, count: int) -> ModelError:
        """Say that nothing more was said."""
        where = f"for the step {printable(step)[:60]!r} " if self.steps is not None and step else ""
        return ModelError(
            f"the {self.name} is at its end: {where}it has {count} replies, and one more is wanted; "
            "what happens now is not what happened then, so run the job anew"
        )

    async def close(self) -> None:
        """Do nothing: there is nothing to let go of."""
