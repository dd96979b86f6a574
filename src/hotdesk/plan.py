"""What the worker means to do: atomic steps, each with what it needs and what it shall leave. Data, no behaviour."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Literal, TypeAlias, get_args

from hotdesk.errors import BriefError, printable

StepKind: TypeAlias = Literal["work", "program", "choose"]
Risk: TypeAlias = Literal["low", "high"]
Where: TypeAlias = Literal["", "fresh", "same"]
CHOICES: dict[str, tuple[str, ...]] = {"kind": get_args(StepKind), "risk": get_args(Risk), "desk": get_args(Where)}
MOST_STEPS = 100
MOST_ITEMS = 200
"""Items of a list in a step."""
LONGEST = 1 << 20
"""Characters of a plan."""
LONGEST_TEXT = 20_000
"""Characters of one text in it."""
DEEPEST = 20
"""Lists and objects inside each other, in the arguments of an action."""
EXAMPLE_STEP = (
    '{"name": "fetch-orders", "intent": "Fetch the orders of the month.", "tools": ["shell"], '
    '"hosts": ["GET https://erp.example.test/orders/*"], "grants": ["erp-token"], "makes": ["orders.csv"]}'
)
EXAMPLE = f'{{"thoughts": "Why so.", "steps": [{EXAMPLE_STEP}]}}'
EXAMPLE_ACTION = '{"name": "accept", "tool": "shell", "arguments": {"command": "./accept"}}'


OURS = ("plan", "approve", "desk", "verify", "keep")
"""Steps of the line itself: a worker's step of such a name would tell a false story."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that may be chosen: a tool and what it is used with, fixed before anything was read."""

    name: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a worker means to do. What is not listed here it cannot do in this step."""

    name: str
    """Of letters, digits, `.`, `_` and `-`."""
    intent: str
    """In a sentence, for people and for whoever takes it."""
    tools: tuple[str, ...] | None = None
    """Names of tools; `browser_*` is every tool so called. None: all the brief allows."""
    hosts: tuple[str, ...] | None = None
    """Rules as text, method and all: `GET https://erp.example.test/orders/*`. None: all the brief has for this step."""
    grants: tuple[str, ...] | None = None
    """Names of secrets. None: all the brief has for this step."""
    files: tuple[str, ...] = ()
    """What it reads of the home folder: all it finds at a fresh desk."""
    makes: tuple[str, ...] = ()
    """What it leaves in the home folder: all that comes back from a fresh desk. Each must be there at its end."""
    expect: str = ""
    """What will be so when it is done."""
    check: str = ""
    """A shell command that exits 0 when it is so; empty: that what it makes is there is enough."""
    risk: Risk = "low"
    """`high`: the desk is kept as it is before it, and rolled back when it fails."""
    live: bool = False
    """It makes something that no file holds: a login, a started server. Taken again when a job is resumed."""
    keeps: bool = False
    """It goes on where the step before left off: same desk, processes and browser profile stay."""
    desk: Where = ""
    """`fresh`: at a desk of its own; `same`: not, though it has grants and something foreign was read before."""
    kind: StepKind = "work"
    """`program`: runs a program that is part of the plan, and reads nothing; `choose`: picks one of `actions`."""
    program: str = ""
    """Of a `program` step: what a shell is given."""
    actions: tuple[Action, ...] = ()
    """Of a `choose` step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order."""

    steps: tuple[Step, ...]
    thoughts: str = ""
    """Why so: the planner's words, for people."""

    @property
    def digest(self) -> str:
        """Give what is approved: SHA-256 of everything in it."""
        return hashlib.sha256(to_json(self).encode()).hexdigest()


def to_json(plan: Plan) -> str:
    """Write a plan as one line."""
    return json.dumps(asdict(plan), separators=(",", ":"), sort_keys=True, allow_nan=False)


def from_json(text: str) -> Plan:
    """Read a plan strictly; `BriefError` says where it is wrong, why, and how it is written."""
    if len(text) > LONGEST:
        raise wrong("the plan", f"it is longer than {LONGEST:,} characters", "write fewer, shorter steps")
    try:
        told = read_json(text)
    except (ValueError, RecursionError) as e:
        raise wrong("the plan", f"it is not JSON: {str(e)[:200]}", f"write it like {EXAMPLE}") from None
    return read_plan(told)


def read_plan(told: object) -> Plan:
    """Read a plan from what JSON or TOML gave."""
    table = fields_of(told, Plan, "the plan")
    steps = table.get("steps")
    if not isinstance(steps, list | tuple) or not 0 < len(steps) <= MOST_STEPS:
        raise wrong("steps", f"it is no list of 1 to {MOST_STEPS} steps", f"write the plan like {EXAMPLE}")
    thoughts = read_text(table.get("thoughts", ""), "thoughts")
    return Plan(tuple(read_step(each, f"steps[{index}]") for index, each in enumerate(steps)), thoughts)


def read_step(told: object, where: str) -> Step:
    """Read one step."""
    table = fields_of(told, Step, where)
    values: dict[str, object] = {}
    for name, value in table.items():
        values[name] = read_field(name, value, f"{where}.{name}")
    for name in ("name", "intent"):
        if not values.get(name):
            raise wrong(f"{where}.{name}", "it is missing or empty", f"write the step like {EXAMPLE_STEP}")
    return Step(**values)  # type: ignore[arg-type]


def read_field(name: str, value: object, where: str) -> object:
    """Read one field of a step."""
    if name in CHOICES:
        if not isinstance(value, str) or value not in CHOICES[name]:
            words = ", ".join(repr(each) for each in CHOICES[name])
            raise wrong(where, f"it is {shown(value)}", f"write one of {words}")
        return value
    match name:
        case "tools" | "hosts" | "grants" | "files" | "makes":
            optional = name in ("tools", "hosts", "grants")
            return None if optional and value is None else read_texts(value, where)
        case "live" | "keeps":
            if not isinstance(value, bool):
                raise wrong(where, f"it is {shown(value)}", "write true or false")
            return value
        case "actions":
            if not isinstance(value, list | tuple) or len(value) > MOST_ITEMS:
                raise wrong(where, f"it is no list of at most {MOST_ITEMS} actions", f"write {EXAMPLE_ACTION}")
            return tuple(read_action(each, f"{where}[{index}]") for index, each in enumerate(value))
    return read_text(value, where)


def read_action(told: object, where: str) -> Action:
    """Read one action that may be chosen."""
    table = fields_of(told, Action, where)
    name, tool = (read_text(table.get(key), f"{where}.{key}") for key in ("name", "tool"))
    return Action(name, tool, read_arguments(table.get("arguments", {}), f"{where}.arguments"))


def read_arguments(told: object, where: str) -> dict[str, object]:
    """Read what a tool is used with: an object, or JSON of one in a text, since TOML has no word for everything."""
    try:
        made = read_json(told) if isinstance(told, str) else told
    except (ValueError, RecursionError) as e:
        raise wrong(where, f"it is not JSON: {str(e)[:200]}", f"write {EXAMPLE_ACTION}") from None
    if not isinstance(made, dict) or not is_plain(made):
        raise wrong(where, "it is no object of plain values", f"write {EXAMPLE_ACTION}")
    return made


def is_plain(value: object, depth: int = 0) -> bool:
    """Say whether a value can be written as JSON by everybody in the same way."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() == value
        case bool() | None:
            return True
        case int() | float():
            return abs(value) < 1 << 63
        case list() | dict() if depth < DEEPEST:
            inner = [*value, *value.values()] if isinstance(value, dict) else value
            return all(is_plain(each, depth + 1) for each in inner)
    return False


def read_json(text: str) -> object:
    """Read JSON that everybody reads in the same way."""
    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=once)


def fields_of(told: object, kind: type, where: str) -> dict[str, object]:
    """Give a table whose keys are all known."""
    known = [each.name for each in fields(kind)]
    if not isinstance(told, dict):
        raise wrong(where, f"it is {shown(told)}", f"write an object with {', '.join(known)}")
    for name in told:
        if name not in known:
            raise wrong(where, f"it has no {shown(name)}", f"it has {', '.join(known)}")
    return told


def read_text(value: object, where: str) -> str:
    """Read a text that can be written down."""
    if not isinstance(value, str):
        raise wrong(where, f"it is {shown(value)}", "write a text")
    if len(value) > LONGEST_TEXT:
        raise wrong(where, f"it has {len(value):,} characters", f"write at most {LONGEST_TEXT:,}")
    if "\0" in value or value.encode("utf-8", "replace").decode() != value:
        raise wrong(where, "it holds half a character or a zero byte", "write plain text")
    return value


def read_texts(value: object, where: str) -> tuple[str, ...]:
    """Read a list of texts."""
    if not isinstance(value, list | tuple) or len(value) > MOST_ITEMS:
        raise wrong(where, f"it is no list of at most {MOST_ITEMS} texts", 'write ["one", "two"]')
    return tuple(read_text(each, f"{where}[{index}]") for index, each in enumerate(value))


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a key that stands there twice: two readers would read two plans."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands there twice")
    return made


def refuse_constant(text: str) -> object:
    """Refuse what is no number of JSON."""
    raise ValueError(f"{text} is no number")


def wrong(where: str, why: str, remedy: str) -> BriefError:
    """Say what of a plan cannot be read."""
    return BriefError(f"{where} cannot be read: {why}; {remedy}")


def shown(value: object) -> str:
    """Show a value in a message."""
    return printable(repr(value)[:80])


def as_text(plan: Plan) -> str:
    """Write a plan for a person to read and edit: TOML, a table a step, what is as usual left out."""
    lines = ["# A step can do what it lists. One without `hosts`, `grants` or `tools` has all of the brief's."]
    lines += [f"thoughts = {toml_value(plan.thoughts)}"] if plan.thoughts else []
    for step in plan.steps:
        lines += ["", "[[steps]]", *(f"{name} = {toml_value(value)}" for name, value in told_of(step))]
    return "\n".join(lines) + "\n"


def told_of(step: Step) -> list[tuple[str, object]]:
    """List what a step says that is not as usual."""
    usual = Step(step.name, step.intent)
    said = [(each.name, getattr(step, each.name)) for each in fields(Step)]
    return [(name, value) for name, value in said if name in ("name", "intent") or value != getattr(usual, name)]


def toml_value(value: object) -> str:
    """Write a value as TOML on one line; what TOML has no word for (nothing, a large number) is written as JSON."""
    if isinstance(value, Action):
        return f"{{name = {quoted(value.name)}, tool = {quoted(value.tool)}, arguments = {quoted(to_line(value))}}}"
    if isinstance(value, tuple):
        inner = ", ".join(toml_value(each) for each in value)
        return f"[{inner}]"
    return str(value).lower() if isinstance(value, bool) else quoted(str(value))


def to_line(action: Action) -> str:
    """Write an action's arguments as JSON."""
    return json.dumps(dict(action.arguments), ensure_ascii=False, allow_nan=False)


def quoted(text: str) -> str:
    """Write a text as TOML does; all that could steer a terminal is escaped."""
    return f'"{"".join(toml_character(each) for each in text)}"'


def toml_character(character: str) -> str:
    """Write one character of a text."""
    if character in '"\\':
        return f"\\{character}"
    if character == printable(character):
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def parse_text(text: str) -> Plan:
    """Read a plan a person edited."""
    if len(text) > 2 * LONGEST:
        raise wrong("the plan", f"it is longer than {2 * LONGEST:,} characters", "write fewer, shorter steps")
    try:
        told = tomllib.loads(text)
    except (ValueError, RecursionError) as e:
        raise wrong("the plan", f"it is not TOML: {str(e)[:200]}", "write each step as a table [[steps]]") from None
    return read_plan(told)
