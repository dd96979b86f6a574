"""What a script works with. Whatever it awaits is a use of tools: it is left there until the use has been made."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ask: TypeAlias = tuple[str, dict[str, object]]
"""A tool, and what it is used with."""


class Failed(Exception):  # noqa: N818 - what a script may catch, and read
    """A tool did not do what it must; says what it told."""


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[T_co]):
    """A use of one tool, not made yet: awaiting it gives what came of it."""

    ask: Ask
    read: Callable[[Observation], T_co]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], T_co]:
        [seen] = yield (self.ask,)
        return self.read(seen)


@dataclass(frozen=True, slots=True)
class Together(Generic[T_co]):
    """Several uses at once."""

    wanted: tuple[ToolCall[T_co], ...]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], list[T_co]]:
        if not self.wanted:
            return []
        seen = yield tuple(each.ask for each in self.wanted)
        return [each.read(one) for each, one in zip(self.wanted, seen, strict=True)]


@dataclass(slots=True)
class Hands:
    """Uses tools on a script's behalf. Every answer may be the desk's word."""

    attempt: int = 1
    """Which attempt at the step this is."""
    before: str = ""
    """What happened to earlier attempts: why they failed, or what their results lacked."""
    words: list[str] = field(default_factory=list)
    """Said since the last use."""

    def say(self, text: str) -> None:
        """Say what the next use is for, for people."""
        self.words.append(text)

    def use(self, tool: str, /, **arguments: object) -> ToolCall[Observation]:
        """Use a tool; one that fails is a result."""
        return ToolCall((tool, arguments), lambda seen: seen)

    def together(self, *wanted: ToolCall[T]) -> Together[T]:
        """Use several tools at once; give what came of each, in order."""
        return Together(wanted)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> ToolCall[Done]:
        """Run a program to its end; its exit code is a result."""
        given: dict[str, object] = {"argv": list(argv)}
        return ToolCall(("exact_run", given if timeout is None else {**given, "timeout": timeout}), read_done)

    def read(self, path: str) -> ToolCall[bytes]:
        """Give a file's bytes; `Failed` when it cannot be had."""
        return ToolCall(("exact_read", {"path": path}), lambda seen: decoded(as_table(seen).get("data"), seen))

    def write(self, path: str, data: bytes) -> ToolCall[None]:
        """Write a file; `Failed` when it cannot be."""
        return ToolCall(("exact_write", {"path": path, "data": base64.b64encode(data).decode()}), check)

    def ask(self, question: str) -> ToolCall[str]:
        """Ask a person; `Failed` when there is no answer."""
        return ToolCall(("ask_person", {"question": question}), text)

    def amend(self, **wanted: object) -> ToolCall[Observation]:
        """Ask that the plan be widened: `reason`, and lists of `hosts`, `grants` or `tools`; a no is a result."""
        return ToolCall(("amend_plan", wanted), lambda seen: seen)

    def remember(self, text: str) -> ToolCall[None]:
        """Keep a note for later steps."""
        return ToolCall(("remember", {"text": text}), check)

    def recall(self, query: str) -> ToolCall[str]:
        """Search the notes."""
        return ToolCall(("recall", {"query": query}), text)


def check(seen: Observation) -> None:
    """Refuse what is no success."""
    if not seen.ok:
        raise Failed(seen.text or seen.note or "the tool failed and said nothing")


def text(seen: Observation) -> str:
    """Give what a tool told that must succeed."""
    check(seen)
    return seen.text


def as_table(seen: Observation) -> dict[str, Any]:
    """Read what a tool of exact results told; whatever else came instead is why it failed.

    Behind it may stand words of ours, for a model that goes in circles.
    """
    try:
        told, _ = json.JSONDecoder().raw_decode(seen.text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise Failed(seen.text or seen.note or "the tool failed and said nothing")
    return told


def read_done(seen: Observation) -> Done:
    """Read how a program ended."""
    told = as_table(seen)
    code, reason = told.get("exit_code"), told.get("reason")
    if type(code) is not int or not isinstance(reason, str):
        raise Failed(seen.text)
    stdout, stderr = (decoded(told.get(name), seen) for name in ("stdout", "stderr"))
    flags = {name: told.get(name) is True for name in ("timed_out", "truncated")}
    return Done(code, stdout, stderr, reason=reason, **flags)


def decoded(value: object, seen: Observation) -> bytes:
    """Give bytes that came as base64."""
    try:
        return base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise Failed(seen.text[:1000]) from None
