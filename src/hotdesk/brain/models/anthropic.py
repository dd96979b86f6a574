"""Anthropic's models, by its own library: `anthropic:MODEL`. The whole history goes up each time; nothing stays there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hotdesk.brain.models.anthropic_form import DIALECT, body, gather, reply
from hotdesk.brain.models.line import Line, Patience
from hotdesk.brain.models.prices import Prices
from hotdesk.brain.models.seam import Reply, Request

WINDOW = 200_000
VARIABLE = "ANTHROPIC_API_KEY"


class Anthropic:
    """One model of Anthropic's."""

    native_screen = True
    """Whether it has a computer tool of its own, for `Request.screen`."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
        prices: Prices | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Where a URL or key is not given, the library finds its own."""
        self.model = model
        self.name = f"{DIALECT}:{model}"
        self.window = window or WINDOW
        self.prices = prices or Prices()
        self.line = Line(
            self.name, "anthropic", "AsyncAnthropic", VARIABLE, patience, base_url=base_url, api_key=key,
            open_telemetry=False,
        )  # fmt: skip

    async def ask(self, request: Request) -> Reply:
        """Give the next reply, from a stream."""
        told = body(request, self.model, self.name)

        async def begin(client: Any) -> Any:
            return await client.messages.create(**told, stream=True)

        message, up = await self.line.ask(begin, gather)
        said = reply(message, self.name)
        return replace(said, usage=self.prices.priced(replace(said.usage, up=up), self.name))

    async def close(self) -> None:
        """Let go of connections."""
        await self.line.close()
