"""A value of a brief with its position, so that errors can name the line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from hotdesk.brief.lines import Where, find_nearest_line
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

Form: TypeAlias = Literal["toml", "json", "python"]
_SIMILAR_NAMES = {
    "allow": "egress", "approval": "approve", "credentials": "grants", "files": "inputs", "hosts": "egress",
    "hours": "seconds", "minutes": "seconds", "network": "egress", "outputs": "deliverables",
    "rules": "egress", "secrets": "grants", "task": "goal", "timeout": "seconds",
}  # fmt: skip
"""What people write for a field that has another name."""


@dataclass(frozen=True, slots=True)
class BriefValue:
    """A value and its place. Its methods raise `ValueError` that begins with a line or a colon."""

    value: Any
    where: Where = ()
    form: Form = "python"
    lines: dict[Where, int] = field(default_factory=dict)

    def make_error(self, why: str) -> ValueError:
        if self.form == "python":
            return ValueError(f": {_format_location(self.where)}: {why}" if self.where else f": {why}")
        line = find_nearest_line(self.lines, self.where)
        return ValueError(f"{'' if line is None else f', line {line}'}: {why}")

    def write(self, key: str, example: object) -> str:
        *tables, last = key.split(".")
        if self.form == "toml":
            return f"{key} = {_format_toml(example)}"
        text = f'"{last}": {json.dumps(example)}' if self.form == "json" else f"{last}={example!r}"
        for table in reversed(tables):
            text = f'"{table}": {{{text}}}' if self.form == "json" else f"{table}=dict({text})"
        return text

    def has(self, key: str) -> bool:
        return key in self.value

    def get(self, key: str, default: object = None) -> BriefValue:
        return replace(self, value=self.value.get(key, default), where=(*self.where, key))

    def list_items(self) -> list[BriefValue]:
        return [replace(self, value=value, where=(*self.where, at)) for at, value in enumerate(self.value)]

    def require_table(self, what: str, keys: Iterable[str], example: str) -> BriefValue:
        """Return itself, if it is a table with no key but these: another one was meant to say something."""
        if not isinstance(self.value, dict):
            raise self.make_error(f"{what} must be a table; write {example}")
        for key in self.value:
            if key not in keys:
                raise self.get(key).make_error(
                    f"{what} has no field {make_printable(str(key)[:80])!r}; its fields are {', '.join(keys)}"
                    f"{_format_suggestion(str(key), keys)}"
                )
        return self


def _format_suggestion(key: str, keys: Iterable[str]) -> str:
    names = list(keys)
    close = get_close_matches(_SIMILAR_NAMES.get(key, key), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _format_location(where: Where) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{make_printable(part[:80])}" for part in where)
    return text.removeprefix(".")


def _format_toml(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_format_toml_key(str(key))} = {_format_toml(each)}" for key, each in value.items()) + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_toml, value)) + "]"
    return json.dumps(value)


def _format_toml_key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def is_json_value(value: object) -> bool:
    """Return whether a value is such as JSON has in UTF-8: no date, no infinity, no half of a character."""
    match value:
        case dict():
            return all(is_json_value(key) and is_json_value(each) for key, each in value.items())
        case list():
            return all(map(is_json_value, value))
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case float():
            return math.isfinite(value)
    return value is None or isinstance(value, int)
