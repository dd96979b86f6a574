"""The hands of a script: each `await` is a tool call, and the script is suspended until its result is there."""

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
"""A tool and its arguments."""


class Failed(Exception):  # noqa: N818 - the error that scripts may catch
    """A tool failed where it must succeed; the message is the tool's."""


@dataclass(frozen=True, slots=True)
class ToolCall(Generic[T_co]):
    """A tool call that was not made yet: awaiting it returns its result."""

    ask: Ask
    read: Callable[[Observation], T_co]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], T_co]:
        [observation] = yield (self.ask,)
        return self.read(observation)


@dataclass(frozen=True, slots=True)
class Together(Generic[T_co]):
    """Several calls at once."""

    calls: tuple[ToolCall[T_co], ...]

    def __await__(self) -> Generator[tuple[Ask, ...], tuple[Observation, ...], list[T_co]]:
        if not self.calls:
            return []
        observations = yield tuple(each.ask for each in self.calls)
        return [each.read(one) for each, one in zip(self.calls, observations, strict=True)]


@dataclass(slots=True)
class Hands:
    """Uses tools on a script's behalf. Every result may come from the desk and is untrusted."""

    attempt: int = 1
    """Number of this attempt at the step, from 1."""
    before: str = ""
    """What happened to earlier attempts: why they failed, or what their results lacked."""
    words: list[str] = field(default_factory=list)
    """Texts said since the last call."""
    item: str = ""
    """The name of the swarm's item, if any."""

    def say(self, text: str) -> None:
        self.words.append(text)

    def use(self, tool: str, /, **arguments: object) -> ToolCall[Observation]:
        """Use a tool; a failure is a result."""
        return ToolCall((tool, arguments), lambda observation: observation)

    def together(self, *calls: ToolCall[T]) -> Together[T]:
        """Use several tools at once; return their results in order."""
        return Together(calls)

    def run(self, argv: Sequence[str], *, timeout: float | None = None) -> ToolCall[Done]:
        """Run a program to its end; its exit code is a result."""
        arguments: dict[str, object] = {"argv": list(argv)}
        return ToolCall(("exact_run", arguments if timeout is None else {**arguments, "timeout": timeout}), read_done)

    def read(self, path: str) -> ToolCall[bytes]:
        """Return a file's bytes; raise `Failed` if it cannot be read."""
        return ToolCall(
            ("exact_read", {"path": path}),
            lambda observation: decode_base64(as_table(observation).get("data"), observation),
        )

    def write(self, path: str, data: bytes) -> ToolCall[None]:
        """Write a file; raise `Failed` if it cannot be written."""
        return ToolCall(("exact_write", {"path": path, "data": base64.b64encode(data).decode()}), check)

    def ask(self, question: str) -> ToolCall[str]:
        """Ask a person; raise `Failed` if there is no answer."""
        return ToolCall(("ask_person", {"question": question}), read_text)

    def amend(self, **arguments: object) -> ToolCall[Observation]:
        """Request a change of the plan: `reason` and the parameters of `amend_plan`; a refusal is a result."""
        return ToolCall(("amend_plan", arguments), lambda observation: observation)

    def remember(self, text: str, *, keep: bool = False) -> ToolCall[None]:
        """Store a note for later steps; with `keep`, also for later jobs of the brief."""
        return ToolCall(("remember", {"text": text, **({"keep": True} if keep else {})}), check)

    def keep_file(self, path: str, name: str = "") -> ToolCall[None]:
        """Store a copy of a file for later jobs of the brief; raise `Failed` if it cannot be stored."""
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
    """Parse the output of an exact tool; raise `Failed` with any other output as the reason.

    Hints for a model that makes no progress may follow the JSON.
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
