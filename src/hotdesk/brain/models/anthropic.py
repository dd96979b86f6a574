"""Anthropic's models, by its own library: `anthropic:MODEL`. The whole history goes up each time, and stays ours."""

from __future__ import annotations

from typing import Any

from hotdesk.brain.models import anthropic_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver
from hotdesk.brain.models.prices import Prices

WINDOW = 200_000
VARIABLE = "ANTHROPIC_API_KEY"


class AnthropicModel(Driver):
    """One model of Anthropic's."""

    native_screen = True
    """It has a computer tool of its own, for `Request.screen`."""
    sees = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int = WINDOW,
        prices: Prices | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Where a URL or key is not given, the library finds its own."""
        options = {"base_url": base_url, "api_key": key, "open_telemetry": False}
        line = ProviderClient(f"anthropic:{model}", "anthropic", "AsyncAnthropic", VARIABLE, patience, options)
        super().__init__(model, window, prices, anthropic_wire, line)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream of Messages; never the library's own loop, which would keep the history at the provider's."""
        return await client.messages.create(**body, stream=True)
