"""Plans: atomic steps, each with what it needs and what it makes. Data, no behaviour."""

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
"""Maximum items of a list in a step."""
MAX_PLAN_CHARS = 1 << 20
"""Maximum characters of a plan."""
_LONGEST_TEXT = 20_000
"""Maximum characters of one text in a plan."""
MAX_DEPTH = 20
"""Maximum nesting of lists and objects in an action's arguments."""
EXAMPLE_STEP = (
    '{"name": "fetch-orders", "intent": "Fetch the orders of the month.", "tools": ["shell"], '
    '"hosts": ["GET https://erp.example.test/orders/*"], "grants": ["erp-token"], "makes": ["orders.csv"]}'
)
EXAMPLE = f'{{"thoughts": "Why this plan.", "steps": [{EXAMPLE_STEP}]}}'
_EXAMPLE_ACTION = '{"name": "accept", "tool": "shell", "arguments": {"command": "./accept"}}'

T = TypeVar("T")
OURS = ("plan", "approve", "desk", "verify", "keep")
"""Names of a job's own phases: a worker's step of such a name would be misleading."""


def check_text(value: str) -> str:
    """Return a text; raise `ValueError` if it is too long or cannot be encoded."""
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
    """Parse a tool's arguments: an object, or JSON of one as text, because TOML cannot express every value."""
    try:
        found = parse_json(value, overflow=True) if isinstance(value, str) else value
    except StrictError as e:
        raise ValueError(f"it is not JSON: {str(e)[:200]}") from None
    if not isinstance(found, dict) or not is_plain(found):
        raise ValueError(
            "it must be a JSON object in which no value is a number of 2^63 or more, has a lone surrogate, or is "
            f"nested more than {MAX_DEPTH} levels deep"
        )
    return found


def is_plain(value: object, depth: int = 0) -> bool:
    """Return whether every JSON encoder would write a value in the same way."""
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
    """One possible action: a tool and its arguments, fixed before the worker has read anything."""

    name: Text
    tool: Text
    arguments: Annotated[Mapping[str, object], By(_read_arguments)] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One planned step. A worker cannot do anything in a step that its plan does not list."""

    name: Annotated[Text, _require_some]
    """Letters, digits, `.`, `_` and `-`."""
    intent: Annotated[Text, _require_some]
    """One sentence, for people and for the worker."""
    tools: Texts | None = None
    """Names of tools; `browser_*` is a pattern. `None`: all that the brief allows."""
    hosts: Texts | None = None
    """Egress rules, such as `GET https://erp.example.test/orders/*`. `None`: all that the brief has for this step."""
    grants: Texts | None = None
    """Names of secrets. `None`: all that the brief has for this step."""
    files: Texts = ()
    """Files of the home folder that it reads. A desk of its own has only these."""
    makes: Texts = ()
    """Files of the home folder that it must make. From a desk of its own, only these come back."""
    expect: Text = ""
    """The expected state after the step."""
    check: Text = ""
    """A shell command that exits 0 if the step succeeded; empty: the files in `makes` suffice."""
    risk: _Risk = "low"
    """`high`: a snapshot of the desk is taken before it, and restored if it fails."""
    live: bool = False
    """Whether it makes something that no file holds, such as a login or a running server. A resumed job repeats it."""
    keeps: bool = False
    """Whether it continues the previous step: same desk, with its processes and browser profile."""
    desk: Where = ""
    """`fresh`: at a desk of its own; `same`: at the main desk, even with grants after untrusted data was read."""
    kind: _StepKind = "work"
    """`program`: runs a program from the plan, and reads nothing; `choose`: picks one of `actions`."""
    program: Text = ""
    """The shell program of a `program` step."""
    actions: Annotated[tuple[Action, ...], Length(MOST_ITEMS)] = ()
    """The actions of a `choose` step."""
    wall: Text = ""
    """The weakest wall of its desk; empty: the brief's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, and the planner's reasons."""

    steps: Annotated[tuple[Step, ...], Length(MOST_STEPS, 1)]
    thoughts: Text = ""
    """The planner's reasons, for people."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the plan, which an approval refers to."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def to_json(plan: Plan) -> str:
    """Encode a plan as one line. Fields that older versions lack are left out if empty, to keep digests stable."""
    data = asdict(plan)
    for step in data["steps"]:
        if not step["wall"]:
            del step["wall"]
    return json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)


def from_json(text: str) -> Plan:
    """Parse a plan strictly; raise `BriefError` with the place, the reason and a correct example."""
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
    """Format a plan for a person to read and edit: TOML with a table for each step, without default values."""
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
    """Format a value as TOML on one line; an action's arguments are written as JSON, which can express every value."""
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
    """Quote a text as TOML does; characters that could control a terminal are escaped."""
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
