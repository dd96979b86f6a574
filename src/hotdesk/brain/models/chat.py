"""Models behind OpenAI's chat completions API: `chat:MODEL@URL`, `ollama:MODEL`."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from hotdesk.brain.models import chat_wire
from hotdesk.brain.models.client import Patience, ProviderClient
from hotdesk.brain.models.driver import Driver, DriverOptions
from hotdesk.brain.models.seam import ModelRequest, Reply
from hotdesk.brain.window import LEAST_REPLY, estimate_fixed_tokens, request_tokens
from hotdesk.errors import BriefError, make_printable

WINDOW = 16_000
VARIABLE = "HOTDESK_CHAT_KEY"
"""Variable with the key of such a server, if it needs one. OpenAI's own key is sent to OpenAI only."""
URL_VARIABLE = "HOTDESK_CHAT_URL"
"""Variable with the address that key is for. The key is sent to no other address, whatever a model's name contains."""
_WINDOW_VARIABLE = "HOTDESK_CHAT_WINDOW"
"""Variable with the tokens of a request and its reply together; such servers do not report it themselves."""
IMAGES_VARIABLE = "HOTDESK_CHAT_IMAGES"
"""Variable that says whether the model accepts pictures, `1` or `0`; if it is not set, the model's name decides."""
SEEING = re.compile(
    r"(?i)vision|llava|gemma-?3|pixtral|minicpm-v|moondream|[^a-z]vl(?![a-z])|\dvl|gpt-4o|gpt-5|llama-?4"
)
"""Names of models that accept pictures."""
_SMALLEST, _LARGEST = 1000, 100_000_000
_NO_KEY = "none"
ACCOUNT = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that would reveal the OpenAI account to another server."""
_HEADERS_VARIABLE = "OPENAI_CUSTOM_HEADERS"
"""Variable with more headers for OpenAI, which its library sends to any server; they may contain keys."""


class Chat(Driver):
    """One model at one server."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key: str | None = None,
        name: str | None = None,
        window: int | None = None,
        patience: Patience | None = None,
        **more: Any,
    ) -> None:
        """Without `key` or `window`, the variables' values are used; `more` are `DriverOptions`."""
        api_key = key or find_key(base_url) or _NO_KEY
        options: dict[str, Any] = {"base_url": base_url, "api_key": api_key}
        name = name or f"chat:{model}@{base_url}"
        variable = VARIABLE if key or find_key(base_url) else f"{VARIABLE}, and {URL_VARIABLE}={base_url}"
        line = ProviderClient(name, "openai", "AsyncOpenAI", variable, patience, options)
        omitted = dict.fromkeys((*ACCOUNT, *_list_custom_headers()), line.sdk.Omit())
        line.options["default_headers"] = {**omitted, "Authorization": f"Bearer {api_key}"}
        super().__init__("chat", model, window or _read_window(), _LARGEST, DriverOptions(**more), chat_wire, line)
        self.capabilities = replace(self.capabilities, images=self.capabilities.images and _can_see(model))

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next reply if the window has room for it: such servers refuse requests without room."""
        fixed = estimate_fixed_tokens(request.system, request.tools)
        if fixed + LEAST_REPLY > self.window:
            why = f"instructions and tools take {fixed:,} tokens, but the context window has {self.window:,}"
            remedy = f"list fewer tools in the step, use another model, or set a larger {_WINDOW_VARIABLE}"
            raise self.line.build_error(why, remedy)
        return await super().ask(replace(request, tokens=min(request.tokens, self.find_room(request))))

    def find_longer_limit(self, request: ModelRequest) -> int:
        """Return 0, so that no reply is requested twice: local servers are slow, and small models repeat themselves."""
        return 0

    def find_room(self, request: ModelRequest) -> int:
        return max(self.window - request_tokens(request), LEAST_REPLY)

    async def begin(self, client: Any, body: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**body, stream=True)


def _list_custom_headers() -> list[str]:
    """List the names of headers that are set for OpenAI, which no other server gets."""
    names = (line.partition(":")[0].strip() for line in os.environ.get(_HEADERS_VARIABLE, "").split("\n"))
    return [name for name in names if name.lower() not in ("", "authorization")]


def _can_see(model: str) -> bool:
    """Return whether a model accepts pictures: by the variable, else by its name."""
    choice = os.environ.get(IMAGES_VARIABLE, "")
    if choice not in ("", "0", "1"):
        shown = make_printable(choice[:40])
        raise BriefError(f"{IMAGES_VARIABLE} is {shown!r}; set it to 1 (the model can see pictures) or 0")
    return choice == "1" if choice else SEEING.search(model) is not None


def find_key(base_url: str) -> str:
    """Return the key that is set for a server's address; empty if it is for another address, or for none."""
    here = parse_address(base_url)
    if here is None or here != parse_address(os.environ.get(URL_VARIABLE, "")):
        return ""
    return os.environ.get(VARIABLE, "")


def parse_address(url: str) -> tuple[str, str, int, str] | None:
    """Return the parts by which two URLs of one server are equal, or `None` if the URL is invalid."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    if not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname.lower(), port, parts.path.rstrip("/")


def _read_window() -> int | None:
    """Return the window that is set, or `None` for the model's own."""
    text = os.environ.get(_WINDOW_VARIABLE)
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < _SMALLEST:
        raise BriefError(
            f"{_WINDOW_VARIABLE} is {make_printable(text)[:40]!r}; set it to the model's context window in tokens, "
            f"at least {_SMALLEST}, such as {WINDOW}"
        )
    return int(text)
