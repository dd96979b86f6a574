"""Tools: their parameters, and the result of a call."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

Kind: TypeAlias = Literal["text", "integer", "number", "flag", "texts", "integers"]
Value: TypeAlias = str | int | float | bool | list[str] | list[int]
Arguments: TypeAlias = Mapping[str, Value]
"""Checked arguments of a tool: all parameters that were given or have a default."""

MAX_TEXT_CHARS = 100_000
"""Default limit on the characters of a text parameter."""
MOST_ITEMS = 1000
MAX_CALL_BYTES = 1 << 22
"""Bytes of the arguments of one call as JSON, between processes: a text may have a million characters."""
JSON_TYPES: dict[Kind, dict[str, object]] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "integers": {"type": "array", "items": {"type": "integer"}},
}
WORDS: dict[Kind, str] = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "texts": "a list of texts",
    "integers": "a list of whole numbers",
}


class ToolArgumentError(Exception):
    """Invalid arguments of a tool: what is wrong, what is expected, and a valid example."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool."""

    name: str
    kind: Kind
    what: str
    """A short description, for a model."""
    default: Value | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    least: float = -math.inf
    most: float = math.inf
    """Bounds of a number, or of each number in a list."""
    longest: int = MAX_TEXT_CHARS
    """Maximum characters of a text, or of each text in a list."""
    items: int = MOST_ITEMS
    """Maximum items of a list."""

    def build_schema(self) -> dict[str, object]:
        """Return the parameter as JSON Schema."""
        keywords: dict[str, object] = dict(JSON_TYPES[self.kind])
        if self.what:
            keywords["description"] = self.what
        if self.choices:
            keywords["enum"] = list(self.choices)
        inner = keywords
        if isinstance(items := keywords.get("items"), dict):
            inner = keywords["items"] = dict(items)
        if self.least > -math.inf:
            inner["minimum"] = self.least
        if self.most < math.inf:
            inner["maximum"] = self.most
        if self.default is not None:
            keywords["default"] = self.default
        return keywords

    def find_fault(self, value: object) -> str:
        """Return what is wrong with a value, or an empty string."""
        shown = make_printable(repr(value))[:80]
        if not fits(value, self.kind):
            return f"{self.name} is {shown}, not {WORDS[self.kind]}"
        if self.choices and value not in self.choices:
            return f"{self.name} is {shown}; it must be one of {', '.join(self.choices)}"
        each = value if isinstance(value, list) else [value]
        if len(each) > self.items:
            return f"{self.name} has {len(each):,} items; at most {self.items:,} are allowed"
        return next((why for one in each if (why := self.find_part_fault(one))), "")

    def find_part_fault(self, value: object) -> str:
        """Return what is wrong with a single text or number, or an empty string."""
        shown = make_printable(repr(value))[:80]
        if isinstance(value, str) and len(value) > self.longest:
            return f"{self.name} has {len(value):,} characters; at most {self.longest:,} are allowed"
        if isinstance(value, str) and not is_whole(value):
            return f"{self.name} contains a lone surrogate or a zero byte, which no program can read; remove it"
        if type(value) in (int, float) and not self.least <= value <= self.most:  # type: ignore[operator]
            return f"{self.name} is {shown}; it must be {_describe_bounds(self.least, self.most)}"
        return ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing a worker can do at a desk."""

    name: str
    what: str
    """A description in a few sentences, for a model."""
    parameters: tuple[Parameter, ...] = ()
    example: Mapping[str, object] = field(default_factory=dict)
    """Valid arguments."""
    parallel: bool = False
    """Whether several calls may run at once, because none changes what another would see."""

    def build_schema(self) -> dict[str, object]:
        """Return the parameters as JSON Schema."""
        return {
            "type": "object",
            "properties": {each.name: each.build_schema() for each in self.parameters},
            "required": [each.name for each in self.parameters if each.required],
            "additionalProperties": False,
        }

    def check(self, arguments: object) -> dict[str, Value]:
        """Return the arguments with defaults filled in; raise `ToolArgumentError` if they are invalid."""
        if not isinstance(arguments, Mapping):
            raise self.refuse("its arguments must be a JSON object")
        parameters = {each.name: each for each in self.parameters}
        wrong = [
            f"unknown parameter '{make_printable(str(name))[:40]}'" for name in arguments if name not in parameters
        ]
        checked: dict[str, Value] = {}
        for name, parameter in parameters.items():
            value = arguments.get(name)
            if value is None and parameter.required:
                wrong.append(f"{name} is missing")
            elif value is None and parameter.default is not None:
                checked[name] = parameter.default
            elif value is not None and (why := parameter.find_fault(value)):
                wrong.append(why)
            elif value is not None:
                checked[name] = value
        if wrong:
            raise self.refuse("; ".join(wrong[:5]))
        return checked

    def refuse(self, why: str) -> ToolArgumentError:
        """Return the error for a call: what is wrong, what is expected, and an example."""
        takes = "; ".join(
            f"{each.name}: {WORDS[each.kind]}{', required' if each.required else ''} ({each.what})"
            for each in self.parameters
        )
        example = json.dumps(self.example, ensure_ascii=False)
        return ToolArgumentError(
            f"{self.name} was not used: {why}. Arguments: {takes or 'none'}. For example: {example}"
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a brain requests."""

    id: str
    """The brain's own id of the call."""
    tool: str
    arguments: object
    """The arguments, unchecked: `Tool.check` validates them. For `computer`: `{"vendor": …, "actions": […]}`."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of a tool. Everything in it may come from the desk."""

    text: str = ""
    ok: bool = True
    image: bytes = b""
    """A picture as a file of type `media`, encoded by the host or passed on unparsed."""
    media: str = ""
    fallback: str = ""
    """The alternative that was used after the first way failed: `coordinates`, `keyboard`, `clipboard`; empty: none."""
    note: str = ""
    """A note for the worker: what was cut off, or who was in control."""


class Vision(Protocol):
    """A model that can interpret pictures."""

    async def ask(self, image: bytes, media: str, question: str) -> str:
        """Answer a question about a picture; raise `HostError` if the model cannot be reached.

        The picture, and so the answer, is untrusted.
        """
        ...


class Stage(Protocol):
    """The environment of one step: a brain gets this, never a desk."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Return the tools of this step."""
        ...

    @property
    def listed(self) -> Sequence[Tool]:
        """Return the tools to list in requests: those of all steps of the job, so that a provider can cache the
        requests' prefix.

        They include tools that this step may not use; a call of one is refused.
        """
        ...

    @property
    def screen(self) -> tuple[int, int] | None:
        """Return width and height of the screen; `None` if there is none, or no step of the job may see it."""
        ...

    async def use(self, call: Call) -> Observation:
        """Use a tool. Every failure is an observation, except `DeskGone`."""
        ...

    async def describe_missing(self) -> str:
        """Describe for a model which of the step's promised results are missing now; empty if none is."""
        ...


class Hand(Protocol):
    """A group of related tools."""

    @property
    def tools(self) -> Sequence[Tool]:
        """Return the tools."""
        ...

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        """Call a tool with checked arguments. Failures at the desk are observations; if the desk is gone, raise."""
        ...


def is_whole(text: str) -> bool:
    """Return whether a text can be written as UTF-8 and passed to a program."""
    return "\0" not in text and text.encode("utf-8", "replace").decode() == text


def _describe_bounds(least: float, most: float) -> str:
    if math.isinf(most):
        return f"at least {least:g}"
    return f"at most {most:g}" if math.isinf(least) else f"between {least:g} and {most:g}"


def get_text(arguments: Arguments, name: str) -> str:
    """Return a checked text argument; empty if it was not given."""
    value = arguments.get(name, "")
    assert isinstance(value, str)
    return value


def get_texts(arguments: Arguments, name: str) -> list[str]:
    """Return a checked list of texts; empty if it was not given."""
    value = arguments.get(name, [])
    assert isinstance(value, list)
    return [str(each) for each in value]


def get_number(arguments: Arguments, name: str, otherwise: float = 0) -> float:
    """Return a checked number, or `otherwise` if it was not given."""
    value = arguments.get(name, otherwise)
    assert isinstance(value, int | float)
    return value


def get_integer(arguments: Arguments, name: str, otherwise: int = 0) -> int:
    """Return a checked integer, or `otherwise` if it was not given."""
    return int(get_number(arguments, name, otherwise))


def get_flag(arguments: Arguments, name: str) -> bool:
    """Return whether a flag was given and is true."""
    return arguments.get(name) is True


def fits(value: object, kind: Kind) -> bool:
    """Return whether a value has the type of a parameter."""
    match kind:
        case "text":
            return isinstance(value, str)
        case "flag":
            return isinstance(value, bool)
        case "integer":
            return type(value) is int
        case "number":
            return type(value) is int or (type(value) is float and math.isfinite(value))
        case "texts":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "integers":
            return isinstance(value, list) and all(type(each) is int for each in value)
