"""What the providers' drivers have in common: a form, a line, a price."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

from hotdesk.brain.models.client import Events, ProviderClient
from hotdesk.brain.models.prices import Prices
from hotdesk.brain.models.seam import ModelRequest, Reply


class WireFormat(Protocol):
    """How a provider writes: a module of pure functions."""

    def body(self, request: ModelRequest, model: str, name: str) -> dict[str, Any]:
        """Write a request."""
        ...

    async def gather(self, events: Events) -> dict[str, Any]:
        """Assemble a reply from its events.

        Raises `ReplyCutError` when its end is missing and `ProviderError` when the provider reports a failure.
        """
        ...

    def reply(self, message: dict[str, Any], name: str) -> Reply:
        """Read an answer."""
        ...


class Driver:
    """One model of one provider's."""

    def __init__(self, model: str, window: int, prices: Prices | None, form: WireFormat, line: ProviderClient) -> None:
        self.model = model
        self.name = line.name
        self.window = window
        self.prices = prices or Prices()
        self.form = form
        self.line = line

    async def ask(self, request: ModelRequest) -> Reply:
        """Give the next reply, from a stream."""
        body = self.form.body(request, self.model, self.name)

        async def begin(client: Any) -> Any:
            return await self.begin(client, body)

        async def hear(events: Events) -> Reply:
            return self.form.reply(await self.form.gather(events), self.name)

        reply, up = await self.line.ask(begin, hear)
        return replace(reply, usage=self.prices.price_usage(replace(reply.usage, up=up), self.name))

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream with the provider's client."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of connections."""
        await self.line.close()
