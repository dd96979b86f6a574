"""Anthropic's models, by its own library: `anthropic:MODEL`. Each request has the whole history, which stays here."""

from __future__ import annotations

from typing import Any

from hotdesk.brain.models import anthropic_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver, DriverOptions

WINDOW = 200_000
"""Default for the tokens of a request: longer requests are slower and more expensive, and not read better."""
VARIABLE = "ANTHROPIC_API_KEY"
OWN = ("https://api.anthropic.com", "ANTHROPIC_BASE_URL")
"""The vendor's address, and the variable that overrides it."""


class AnthropicModel(Driver):
    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        key: str | None = None,
        window: int | None = None,
        patience: Patience | None = None,
        **more: Any,
    ) -> None:
        """Without a URL or key the library uses its own; `more` are `DriverOptions`."""
        options = {"base_url": base_url, "api_key": key, "open_telemetry": False}
        line = ProviderClient(f"anthropic:{model}", "anthropic", "AsyncAnthropic", VARIABLE, patience, options, OWN)
        super().__init__("anthropic", model, window, WINDOW, DriverOptions(**more), anthropic_wire, line)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream of Messages. The library's own tool loop would store the history at the provider."""
        return await client.messages.create(**body, stream=True)
