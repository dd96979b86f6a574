"""OpenAI's models, by its own library and Responses: `openai:MODEL`. Nothing is stored there."""

from __future__ import annotations

from typing import Any

from hotdesk.brain.models import openai_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver
from hotdesk.brain.models.prices import Prices

WINDOW = 272_000
VARIABLE = "OPENAI_API_KEY"


class OpenAIModel(Driver):
    """One model of OpenAI's."""

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
        options = {"base_url": base_url, "api_key": key}
        line = ProviderClient(f"openai:{model}", "openai", "AsyncOpenAI", VARIABLE, patience, options)
        super().__init__(model, window, prices, openai_wire, line)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        """Begin a stream of a response."""
        return await client.responses.create(**body, stream=True)
