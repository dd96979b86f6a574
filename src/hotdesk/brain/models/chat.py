"""Models of anybody who speaks OpenAI's chat completions: `chat:MODEL@URL`, `ollama:MODEL`."""

from __future__ import annotations

import os
from typing import Any

from hotdesk.brain.models import chat_form
from hotdesk.brain.models.driver import Driver
from hotdesk.brain.models.line import Line, Patience
from hotdesk.brain.models.prices import Prices

WINDOW = 16_000
VARIABLE = "HOTDESK_CHAT_KEY"
"""The key of such a server, if it wants one. OpenAI's own key goes to OpenAI only."""
NO_KEY = "none"
ACCOUNT = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that would tell a stranger whose account OpenAI has."""


class Chat(Driver):
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
        window: int = WINDOW,
        prices: Prices | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Where no key is given, the variable's; where there is none, none."""
        options = {"base_url": base_url, "api_key": key or os.environ.get(VARIABLE) or NO_KEY}
        name = name or f"chat:{model}@{base_url}"
        line = Line(name, "openai", "AsyncOpenAI", VARIABLE, patience, options)
        line.options["default_headers"] = dict.fromkeys(ACCOUNT, line.sdk.Omit())
        super().__init__(model, window, prices, chat_form, line)

    async def begin(self, client: Any, told: dict[str, Any]) -> Any:
        """Begin a stream of a completion."""
        return await client.chat.completions.create(**told, stream=True)
