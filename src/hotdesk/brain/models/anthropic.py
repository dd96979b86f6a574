"""Anthropic's models, by its own library: `anthropic:MODEL`. The whole history goes up each time, and stays ours."""

from __future__ import annotations

from typing import Any

from hotdesk.brain.models import anthropic_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver, DriverOptions

WINDOW = 200_000
"""Tokens a request may have where no one says otherwise: more is slower, dearer and not better read."""
VARIABLE = "ANTHROPIC_API_KEY"
OWN = ("https://api.anthropic.com", "ANTHROPIC_BASE_URL")
"""The vendor's address, and what leads elsewhere."""


class AnthropicModel(Driver):
    """One model of Anthropic's."""

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
        """Without a URL or key the library finds its own; `more` are `DriverOptions`."""
        options = {"base_url": base_url, "api_key": key, "open_telemetry": False}
        line = ProviderClient(f"anthropic:{model}", "anthropic", "AsyncAnthropic", VARIABLE, patience, options, OWN)
        super().__init__("anthropic", model, window, WINDOW, DriverOptions(**more), anthropic_wire, line)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream of Messages; never the library's own loop, which would keep the history at the provider's."""
        return await client.messages.create(**body, stream=True)
