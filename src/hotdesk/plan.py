"""Plans: atomic steps, each with its needs and its results. Data, no behaviour."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, field, fields
from functools import reduce
from operator import getitem
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, make_printable
from hotdesk.strict import By, Length, StrictError, parse_json, read

_StepKind: TypeAlias = Literal["work", "program", "choose"]
_Risk: TypeAlias = Literal["low", "high"]
Where: TypeAlias = Literal["", "fresh", "same"]
MOST_STEPS = 100
MOST_ITEMS = 200
"""Items of a list in a step."""
MAX_PLAN_CHARS = 1 << 20
"""Characters of a plan."""
_LONGEST_TEXT = 20_000
"""Characters of one text in it."""
MAX_DEPTH = 20
"""Lists and objects inside each other, in the arguments of an action."""
EXAMPLE_STEP = (
    '{"name": "fetch-orders", "intent": "Fetch the orders of the month.", "tools": ["shell"], '
    '"hosts": ["GET https://erp.example.test/orders/*"], "grants": ["erp-token"], "makes": ["orders.csv"]}'
)
EXAMPLE = f'{{"thoughts": "Why this plan.", "steps": [{EXAMPLE_STEP}]}}'
_EXAMPLE_ACTION = '{"name": "accept", "tool": "shell", "arguments": {"command": "./accept"}}'

T = TypeVar("T")
OURS = ("plan", "approve", "desk", "verify", "keep")
"""Steps of the line itself: a worker's step of such a name would tell a false story."""


def check_text(value: str) -> str:
    """Refuse a text that is too long or cannot be written down."""
    if len(value) > _LONGEST_TEXT:
        raise ValueError(f"it has {len(value):,} characters; the limit is {_LONGEST_TEXT:,}")
    if "\0" in value or value.encode("utf-8", "replace").decode() != value:
        raise ValueError("it contains a lone surrogate or a zero byte")
    return value


def _require_some(value: str) -> str:
    if not value:
        raise ValueError("it is missing or empty")
    return value


def _read_arguments(value: object) -> dict[str, object]:
    """Read what a tool is used with: an object, or JSON of one in a text, since TOML has no word for everything."""
    try:
        found = parse_json(value, overflow=True) if isinstance(value, str) else value
    except StrictError as e:
        raise ValueError(f"it is not JSON: {str(e)[:200]}") from None
    if not isinstance(found, dict) or not is_plain(found):
        raise ValueError("it is not a JSON object, or a value in it is too large or nested too deeply")
    return found


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether every JSON writer would write a value alike."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() == value
        case bool() | None:
            return True
        case int() | float():
            return abs(value) < 1 << 63
        case list() | dict() if depth < MAX_DEPTH:
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            return all(is_plain(each, depth + 1) for each in inner)
    return False


Text: TypeAlias = Annotated[str, check_text]
Texts: TypeAlias = Annotated[tuple[Text, ...], Length(MOST_ITEMS)]


@dataclass(frozen=True, slots=True)
class Action:
    """One possible action: a tool and its arguments, fixed before anything was read."""

    name: Text
    tool: Text
    arguments: Annotated[Mapping[str, object], By(_read_arguments)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One planned step. A worker cannot do anything in a step that its plan does not list."""

    name: Annotated[Text, _require_some]
    """Of letters, digits, `.`, `_` and `-`."""
    intent: Annotated[Text, _require_some]
    """In a sentence, for people and for whoever takes it."""
    tools: Texts | None = None
    """Names of tools; `browser_*` is every tool so called. None: all the brief allows."""
    hosts: Texts | None = None
    """Rules as text, method and all: `GET https://erp.example.test/orders/*`. None: all the brief has for this step."""
    grants: Texts | None = None
    """Names of secrets. None: all the brief has for this step."""
    files: Texts = ()
    """What it reads of the home folder: all it finds at a fresh desk."""
    makes: Texts = ()
    """What it leaves in the home folder: all that comes back from a fresh desk. Each must be there at its end."""
    expect: Text = ""
    """What will be so when it is done."""
    check: Text = ""
    """A shell command that exits 0 when it is so; empty: that what it makes is there is enough."""
    risk: _Risk = "low"
    """`high`: the desk is kept as it is before it, and rolled back when it fails."""
    live: bool = False
    """It makes something that no file holds: a login, a started server. Taken again when a job is resumed."""
    keeps: bool = False
    """It goes on where the step before left off: same desk, processes and browser profile stay."""
    desk: Where = ""
    """`fresh`: at a desk of its own; `same`: not, though it has grants and something foreign was read before."""
    kind: _StepKind = "work"
    """`program`: runs a program that is part of the plan, and reads nothing; `choose`: picks one of `actions`."""
    program: Text = ""
    """Of a `program` step: what a shell is given."""
    actions: Annotated[tuple[Action, ...], Length(MOST_ITEMS)] = ()
    """Of a `choose` step."""
    wall: Text = ""
    """The least around the desk it is taken at; empty: what the brief has."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order."""

    steps: Annotated[tuple[Step, ...], Length(MOST_STEPS, 1)]
    thoughts: Text = ""
    """Why so: the planner's words, for people."""

    @property
    def digest(self) -> str:
        """Return what is approved: SHA-256 of everything in it."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def to_json(plan: Plan) -> str:
    """Write a plan as one line; what older versions did not have only where it says something: digests stay."""
    data = asdict(plan)
    for step in data["steps"]:
        if not step["wall"]:
            del step["wall"]
    return json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)


def from_json(text: str) -> Plan:
    """Read a plan strictly; `BriefError` says where it is wrong, why, and how it is written."""
    if len(text) > MAX_PLAN_CHARS:
        raise make_error("the plan", f"it is longer than {MAX_PLAN_CHARS:,} characters", "write fewer, shorter steps")
    try:
        data = parse_json(text, overflow=True)
    except StrictError as e:
        raise make_error("the plan", f"it is not JSON: {str(e)[:200]}", f"write it like {EXAMPLE}") from None
    return read_part(Plan, data)


def read_part(kind: type[T], data: object, where: str = "") -> T:
    try:
        return read(kind, data)
    except StrictError as e:
        place = ".".join(filter(None, (where, e.where))) or "the plan"
        expected = e.why.removeprefix("expected ")
        if expected != e.why:
            raise make_error(
                place, f"it is {format_value(reduce(getitem, e.path, cast(Any, data)))}", f"write {expected}"
            ) from None
        example = _EXAMPLE_ACTION if "actions" in e.path else EXAMPLE_STEP if where or e.path else EXAMPLE
        raise make_error(place, e.why, f"write it like {example}") from None


def make_error(where: str, why: str, remedy: str) -> BriefError:
    return BriefError(f"{where} cannot be read: {why}; {remedy}")


def format_value(value: object) -> str:
    return make_printable(repr(value)[:80])


def as_text(plan: Plan) -> str:
    """Write a plan for a person to read and edit: TOML, a table a step, what is as usual left out."""
    lines = [
        "# A step may use only the `hosts`, `grants` and `tools` it lists; without a list, all that the brief allows."
    ]
    lines += [f"thoughts = {_format_toml_value(plan.thoughts)}"] if plan.thoughts else []
    for step in plan.steps:
        lines += ["", "[[steps]]", *(f"{name} = {_format_toml_value(value)}" for name, value in _step_fields(step))]
    return "\n".join(lines) + "\n"


def _step_fields(step: Step) -> list[tuple[str, object]]:
    usual = Step(step.name, step.intent)
    values = [(each.name, getattr(step, each.name)) for each in fields(Step)]
    return [(name, value) for name, value in values if name in ("name", "intent") or value != getattr(usual, name)]


def _format_toml_value(value: object) -> str:
    """Write a value as TOML on one line; what TOML has no word for (nothing, a large number) is written as JSON."""
    if isinstance(value, Action):
        name, tool, arguments = (_quote_toml(each) for each in (value.name, value.tool, _to_line(value)))
        return f"{{name = {name}, tool = {tool}, arguments = {arguments}}}"
    if isinstance(value, tuple):
        inner = ", ".join(_format_toml_value(each) for each in value)
        return f"[{inner}]"
    return str(value).lower() if isinstance(value, bool) else _quote_toml(str(value))


def _to_line(action: Action) -> str:
    return json.dumps(dict(action.arguments), ensure_ascii=False, allow_nan=False)


def _quote_toml(text: str) -> str:
    """Write a text as TOML does; all that could steer a terminal is escaped."""
    return f'"{"".join(_escape_toml_character(each) for each in text)}"'


def _escape_toml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character == make_printable(character):
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def parse_text(text: str) -> Plan:
    if len(text) > 2 * MAX_PLAN_CHARS:
        raise make_error(
            "the plan", f"it is longer than {2 * MAX_PLAN_CHARS:,} characters", "write fewer, shorter steps"
        )
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise make_error(
            "the plan", f"it is not TOML: {str(e)[:200]}", "write each step as a table [[steps]]"
        ) from None
    return read_part(Plan, data)
