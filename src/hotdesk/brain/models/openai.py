"""OpenAI's models, by its own library and Responses: `openai:MODEL`. Nothing is stored at the provider."""

from __future__ import annotations

from typing import Any

from hotdesk.brain.models import openai_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver, DriverOptions

WINDOW = 272_000
"""Default for the tokens of a request: in longer ones each token costs twice as much."""
VARIABLE = "OPENAI_API_KEY"
OWN = ("https://api.openai.com/v1", "OPENAI_BASE_URL")
"""The vendor's address, and the variable that overrides it."""


class OpenAIModel(Driver):
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
        options = {"base_url": base_url, "api_key": key}
        line = ProviderClient(f"openai:{model}", "openai", "AsyncOpenAI", VARIABLE, patience, options, OWN)
        super().__init__("openai", model, window, WINDOW, DriverOptions(**more), openai_wire, line)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        return await client.responses.create(**body, stream=True)
