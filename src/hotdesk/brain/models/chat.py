"""Models of anybody who speaks OpenAI's chat completions: `chat:MODEL@URL`, `ollama:MODEL`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from hotdesk.brain.models.chat_form import body, gather, reply
from hotdesk.brain.models.line import Line, Patience
from hotdesk.brain.models.prices import Prices
from hotdesk.brain.models.seam import Reply, Request

WINDOW = 16_000
VARIABLE = "HOTDESK_CHAT_KEY"
"""The key of such a server, if it wants one. OpenAI's own key goes to OpenAI only."""
NO_KEY = "none"
OURS = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that would tell a stranger whose account OpenAI has."""


class Chat:
    """One model, at one server."""

    native_screen = False
    """It has no computer tool of its own: it uses the screen's tools."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key: str | None = None,
        name: str | None = None,
        window: int | None = None,
        prices: Prices | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Where no key is given, the variable's; where there is none, none."""
        self.model = model
        self.name = name or f"chat:{model}@{base_url}"
        self.window = window or WINDOW
        self.prices = prices or Prices()
        key = key or os.environ.get(VARIABLE) or NO_KEY
        self.line = Line(self.name, "openai", "AsyncOpenAI", VARIABLE, patience, base_url=base_url, api_key=key)
        self.line.options["default_headers"] = dict.fromkeys(OURS, self.line.library.Omit())

    async def ask(self, request: Request) -> Reply:
        """Give the next reply, from a stream."""
        told = body(request, self.model, self.name)

        async def begin(client: Any) -> Any:
            return await client.chat.completions.create(**told, stream=True)

        said, up = await self.line.ask(begin, gather)
        read = reply(said, self.name)
        return replace(read, usage=self.prices.priced(replace(read.usage, up=up), self.name))

    async def close(self) -> None:
        """Let go of connections."""
        await self.line.close()
