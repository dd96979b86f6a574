"""The hands of a script: whatever it awaits is a tool call, and it is suspended until the call was made."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from typing import Any, Generic, TypeAlias, TypeVar

from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Done
from hotdesk.tool import Observation

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ask: TypeAlias = tuple[str, dict[str, object]]
"""A tool, and what it is used with."""


class Failed(Exception):  # noqa: N818 - what a script may catch, and read
    """A tool failed where it must succeed; the message is the tool's."""


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[T_co]):
    """A use of one tool, not made yet: awaiting it gives what came of it."""

    ask: Ask
    read: Callable[[Observation], T_co]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], T_co]:
        [observation] = yield (self.ask,)
        return self.read(observation)


@dataclass(frozen=True, slots=True)
class Together(Generic[T_co]):
    """Several uses at once."""

    calls: tuple[ToolCall[T_co], ...]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], list[T_co]]:
        if not self.calls:
            return []
        observations = yield tuple(each.ask for each in self.calls)
        return [each.read(one) for each, one in zip(self.calls, observations, strict=True)]


@dataclass(slots=True)
class Hands:
    """Uses tools on a script's behalf. Every answer may be the desk's word."""

    attempt: int = 1
    """Which attempt at the step this is."""
    before: str = ""
    """What happened to earlier attempts: why they failed, or what their results lacked."""
    words: list[str] = field(default_factory=list)
    """Said since the last use."""
    item: str = ""
    """The name of the item it works at, in a swarm."""

    def say(self, text: str) -> None:
        self.words.append(text)

    def use(self, tool: str, /, **arguments: object) -> ToolCall[Observation]:
        """Use a tool; one that fails is a result."""
        return ToolCall((tool, arguments), lambda observation: observation)

    def together(self, *calls: ToolCall[T]) -> Together[T]:
        """Use several tools at once; return what came of each, in order."""
        return Together(calls)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> ToolCall[Done]:
        """Run a program to its end; its exit code is a result."""
        arguments: dict[str, object] = {"argv": list(argv)}
        return ToolCall(("exact_run", arguments if timeout is None else {**arguments, "timeout": timeout}), read_done)

    def read(self, path: str) -> ToolCall[bytes]:
        """Return a file's bytes; `Failed` when it cannot be had."""
        return ToolCall(
            ("exact_read", {"path": path}),
            lambda observation: decode_base64(as_table(observation).get("data"), observation),
        )

    def write(self, path: str, data: bytes) -> ToolCall[None]:
        """Write a file; `Failed` when it cannot be."""
        return ToolCall(("exact_write", {"path": path, "data": base64.b64encode(data).decode()}), check)

    def ask(self, question: str) -> ToolCall[str]:
        """Ask a person; `Failed` when there is no answer."""
        return ToolCall(("ask_person", {"question": question}), read_text)

    def amend(self, **arguments: object) -> ToolCall[Observation]:
        """Ask for a change of the plan: `reason`, and what `amend_plan` takes (`hosts`, …); a no is a result."""
        return ToolCall(("amend_plan", arguments), lambda observation: observation)

    def remember(self, text: str, *, keep: bool = False) -> ToolCall[None]:
        """Keep a note for later steps; with `keep`, for later jobs of the brief, too."""
        return ToolCall(("remember", {"text": text, **({"keep": True} if keep else {})}), check)

    def keep_file(self, path: str, name: str = "") -> ToolCall[None]:
        """Leave a copy of a file for later jobs of the brief; `Failed` when it cannot be kept."""
        return ToolCall(("keep_file", {"path": path, **({"name": name} if name else {})}), check)

    def recall(self, query: str) -> ToolCall[str]:
        return ToolCall(("recall", {"query": query}), read_text)


def check(observation: Observation) -> None:
    if not observation.ok:
        raise Failed(observation.text or observation.note or "the tool failed without a message")


def read_text(observation: Observation) -> str:
    check(observation)
    return observation.text


def as_table(observation: Observation) -> dict[str, Any]:
    """Parse the output of an exact tool; any other output is the reason of its failure.

    Our own hints for a model that goes in circles may follow it.
    """
    try:
        data, _ = json.JSONDecoder().raw_decode(observation.text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise Failed(observation.text or observation.note or "the tool failed without a message")
    return data


def read_done(observation: Observation) -> Done:
    data = as_table(observation)
    code, reason = data.get("exit_code"), data.get("reason")
    if type(code) is not int or not isinstance(reason, str):
        raise Failed(observation.text)
    stdout, stderr = (decode_base64(data.get(name), observation) for name in ("stdout", "stderr"))
    flags = {name: data.get(name) is True for name in ("timed_out", "truncated")}
    return Done(code, stdout, stderr, reason=reason, **flags)


def decode_base64(value: object, observation: Observation) -> bytes:
    try:
        return base64.b64decode(value, validate=True)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise Failed(observation.text[:1000]) from None
