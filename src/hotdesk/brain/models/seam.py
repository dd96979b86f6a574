"""The seam of models: a request in, a reply out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.errors import ModelError
from hotdesk.tool import Call, Observation, Tool

Stop: TypeAlias = Literal["end", "calls", "length", "window", "refused"]
"""Why a reply ended: it is complete, it has tool calls, it reached its length limit or the end of the model's context
window, or the model refused."""

REPLY = 8000
"""Tokens of the longest reply, by default."""


class RequestTooLongError(ModelError):
    """A request does not fit a model's context window."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The cost of one reply."""

    input: int = 0
    """Input tokens that were not cached."""
    output: int = 0
    cached: int = 0
    """Input tokens from the provider's cache."""
    stored: int = 0
    """Input tokens that were added to the provider's cache."""
    up: int = 0
    """Bytes of the request's body."""
    dollars: float | None = None
    """The price, or `None` if it is unknown."""

    def add(self, other: TokenUsage) -> TokenUsage:
        """Return the sum of two replies' usage; it is without a price if one of them is."""
        priced = self.dollars is not None and other.dollars is not None
        return TokenUsage(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.stored + other.stored,
            self.up + other.up,
            (self.dollars or 0.0) + (other.dollars or 0.0) if priced else None,
        )


@dataclass(frozen=True, slots=True)
class OurMessage:
    """A message to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    text: str = ""
    thought: str = ""
    """The thinking that it shows, for people."""
    calls: tuple[Call, ...] = ()
    stop: Stop = "end"
    usage: TokenUsage = TokenUsage()
    model: str = ""
    """Name of the model, as in `anthropic:MODEL`."""
    dialect: str = ""
    """The wire format of `native`: `anthropic`, `openai` or `chat`; empty if there is none."""
    native: tuple[dict[str, Any], ...] = ()
    """Its own items as plain JSON; they are sent back verbatim, including thinking and signatures."""
    prefix: str = ""
    """The prefix that its thinking is bound to, if the provider binds it; it is sent back after that prefix only."""
    address: str = ""
    """The server's address; empty if it is the vendor's own, or there is none."""
    notes: tuple[str, ...] = ()
    """Events on the way to the reply: delays, features the provider refused."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a reply's calls, in the order of the calls."""

    pairs: tuple[tuple[Call, Observation], ...]


Item: TypeAlias = OurMessage | Reply | Results


@dataclass(frozen=True, slots=True)
class ModelRequest:
    system: str
    history: Sequence[Item]
    """Begins with `OurMessage`; a `Reply` with calls is followed by its `Results`."""
    tools: Sequence[Tool] = ()
    screen: tuple[int, int] | None = None
    """Width and height of the screen if the model may use its native computer tool, else `None`.

    With a screen, `tools` does not have the tools it replaces; a call of the native tool is `Call(id, "computer", …)`.
    """
    screen_tools: Sequence[Tool] = ()
    """The tools that the native computer tool replaces, for a model that turns out to have none."""
    tokens: int = REPLY
    """Tokens of the longest reply."""
    think: bool = True
    step: str = ""
    """The current step; empty while the job is planned."""
    cache: str = ""
    """A key for requests with the same beginning: the job's."""
    attempt: int = 1
    """Number of this attempt at the step, from 1."""
    before: str = ""
    """What happened to earlier attempts."""
    has_alternative: bool = False
    """Whether another model is asked if this one gives no reply, so that a long overload is not waited out."""
    extra: dict[str, Any] = field(default_factory=dict)
    """More fields of the request by dialect; they are sent as they are."""


class LanguageModel(Protocol):
    """A model that replies to requests."""

    @property
    def name(self) -> str:
        """Return its name for people, such as `anthropic:MODEL` or `written script 1a2b3c4d`."""
        ...

    @property
    def window(self) -> int:
        """Return the maximum number of tokens in a request."""
        ...

    @property
    def native_screen(self) -> bool:
        """Return whether it has a native computer tool."""
        ...

    @property
    def sees(self) -> bool:
        """Return whether it accepts pictures."""
        ...

    async def ask(self, request: ModelRequest) -> Reply:
        """Return the next reply. Raises `ModelError`, or `RequestTooLongError` if the request does not fit."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...
