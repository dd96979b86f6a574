"""The seam of models: a request in, a reply out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.tool import Call, Observation, Tool

Stop: TypeAlias = Literal["end", "calls", "length", "refused"]
"""Why a reply ends: it is whole, it wants tools used, its length was up, the model would not."""

REPLY = 8000
"""Tokens of the longest reply, where nothing else is said."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The cost of one reply."""

    input: int = 0
    """Tokens that were read anew."""
    output: int = 0
    cached: int = 0
    """Tokens that the provider still had."""
    stored: int = 0
    """Tokens that the provider keeps from now on."""
    up: int = 0
    """Bytes of the request's body: what the provider was told."""
    dollars: float | None = None
    """None: no price is known."""


@dataclass(frozen=True, slots=True)
class OurMessage:
    """A message to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply."""

    text: str = ""
    thought: str = ""
    """What it shows of its thinking, for people."""
    calls: tuple[Call, ...] = ()
    stop: Stop = "end"
    usage: TokenUsage = TokenUsage()
    model: str = ""
    """The model that said it, by name: `anthropic:MODEL`."""
    dialect: str = ""
    """In which language `native` is: `anthropic`, `openai`, `chat`; empty: none."""
    native: tuple[dict[str, Any], ...] = ()
    """Its own items, plain JSON: they go back verbatim, thinking and signatures included."""
    prefix: str = ""
    """What its thinking is bound to, where the provider binds it: it goes back after the same prefix only."""
    address: str = ""
    """The server's address; empty: the vendor's own, or none."""
    notes: tuple[str, ...] = ()
    """What it took to get it: waits, features the provider refused."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a reply's calls, in the order of the calls."""

    pairs: tuple[tuple[Call, Observation], ...]


Item: TypeAlias = OurMessage | Reply | Results


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model."""

    system: str
    history: Sequence[Item]
    """Begins with `OurMessage`; a `Reply` with calls is followed by its `Results`."""
    tools: Sequence[Tool] = ()
    screen: tuple[int, int] | None = None
    """Width and height of the screen, where the model may use its native computer tool; None: it may not.

    Then what that tool does is not among `tools`; a call of the native tool is `Call(id, "computer", …)`.
    """
    screen_tools: Sequence[Tool] = ()
    """What the native computer tool does, as tools: for a model that turns out to have none."""
    tokens: int = REPLY
    """Of the longest reply."""
    think: bool = True
    step: str = ""
    """The step that is taken; empty: the job is planned."""
    cache: str = ""
    """What requests that begin alike have in common: the job."""
    attempt: int = 1
    """Which attempt at the step this is."""
    before: str = ""
    """What happened to earlier attempts."""
    extra: dict[str, Any] = field(default_factory=dict)
    """More for one dialect, by its name; it goes into the request as it is."""


class LanguageModel(Protocol):
    """A model that replies to requests."""

    @property
    def name(self) -> str:
        """Return its name as people read it: `anthropic:MODEL`, `written script 1a2b3c4d`."""
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
        """Return the next reply. Raises `ModelError` when retries did not help."""
        ...

    async def close(self) -> None:
        """Close connections. A second call does nothing."""
        ...
