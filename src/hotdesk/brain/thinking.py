"""A conversation with a model that only thinks: for planning, and for reviewing a plan."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from hotdesk.brain.compaction import fit
from hotdesk.brain.models.seam import Item, ModelRequest, OurMessage, Reply, Results
from hotdesk.brain.seam import Log
from hotdesk.brain.window import share_out
from hotdesk.dataclass import dataclass
from hotdesk.tool import Call, Observation, Tool

Ask: TypeAlias = Callable[[ModelRequest], Awaitable[Reply]]
TOKENS = 16_000
"""Tokens of the longest reply."""
WINDOW = 200_000


@dataclass(slots=True)
class Thinking:
    """A conversation in which no tool is carried out."""

    ask: Ask
    log: Log
    system: str
    tools: tuple[Tool, ...]
    history: list[Item]
    cache: str
    window: int
    """Tokens of the smallest window among the models."""
    open: tuple[Call, ...] = ()
    """Calls that were not answered yet. They are not acts, because nothing is carried out."""

    async def ask_once(self) -> Reply:
        self.log.check()
        room = share_out(self.window, self.system, self.tools)
        history = fit(self.history, room.conversation)
        request = ModelRequest(self.system, history, self.tools, tokens=min(TOKENS, self.window), cache=self.cache)
        began = time.monotonic()
        reply = await self.ask(request)
        self.log.note_reply("", request, reply, int((time.monotonic() - began) * 1000))
        self.history.append(reply)
        self.open = reply.calls
        return reply

    def answer(self, text: str, *, ok: bool = True) -> None:
        """Answer a reply: with its calls' results, or with a message if it had none."""
        results = Results(tuple((call, Observation(text, ok)) for call in self.open))
        self.history.append(results if self.open else OurMessage(text))
        self.open = ()


def format_list(each: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in each if line) or "- none"
