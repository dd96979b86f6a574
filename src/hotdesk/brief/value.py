"""A value of a brief with its position, so that errors can name the line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypeVar

from hotdesk.brief.faults import BriefFaultsError, FaultError
from hotdesk.brief.lines import Where, find_nearest_line
from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

Form: TypeAlias = Literal["toml", "json", "python"]
T = TypeVar("T")
_MAX_SHOWN_CHARS = 80
"""Maximum characters of a value that an error quotes."""
_SIMILAR_NAMES = {
    "allow": "egress", "always": "every", "approval": "approve", "credentials": "grants", "files": "inputs",
    "hosts": "egress",
    "hours": "seconds", "minutes": "seconds", "network": "egress", "outputs": "deliverables",
    "rules": "egress", "secrets": "grants", "task": "goal", "timeout": "seconds",
}  # fmt: skip
"""Common wrong names for fields, and for values."""


@dataclass(frozen=True, slots=True)
class BriefValue:
    """A value and its place. Its methods raise `ValueError` whose message starts with a line or a colon."""

    value: Any
    where: Where = ()
    form: Form = "python"
    lines: dict[Where, int] = field(default_factory=dict)
    faults: list[ValueError] = field(default_factory=list, compare=False)
    """Faults of the whole brief found so far; all of its values share this list."""

    def make_error(self, why: str) -> ValueError:
        if self.form == "python":
            return FaultError(f": {_format_location(self.where)}: {why}" if self.where else f": {why}")
        line = find_nearest_line(self.lines, self.where)
        return FaultError(f"{'' if line is None else f', line {line}'}: {why}", line)

    def attempt(self, read: Callable[[], T], default: T) -> T:
        """Return the result of `read`. After a fault, record it and return the default, so that reading continues."""
        try:
            return read()
        except BriefFaultsError as e:
            self.faults.extend(e.found)
        except ValueError as e:
            self.faults.append(e)
        return default

    def raise_faults(self) -> None:
        if self.faults:
            raise BriefFaultsError(self.faults)

    def show(self) -> str:
        """Quote the value in the notation of a brief."""
        try:
            text = repr(self.value) if self.form == "python" else _format_toml(self.value)
        except (TypeError, ValueError):
            text = str(self.value)
        return make_printable(text[:_MAX_SHOWN_CHARS]) + ("…" if len(text) > _MAX_SHOWN_CHARS else "")

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

    def require_table(
        self, what: str, keys: Iterable[str], example: str, explain: Callable[[BriefValue, str], str] | None = None
    ) -> BriefValue:
        """Require a table; record each unknown key as a fault.

        `explain` returns a hint for a key that belongs to another table, or `""`.
        """
        if not isinstance(self.value, dict):
            raise self.make_error(f"{what} must be a table, not {self.show()}; write {example}")
        for key in self.value:
            if key not in keys:
                shown = make_printable(str(key)[:_MAX_SHOWN_CHARS])
                elsewhere = explain(self.get(key), str(key)) if explain is not None else ""
                meant = find_similar(str(key), keys)
                hint = elsewhere or (f"; did you mean {meant!r}?" if meant else "")
                why = f"{what} has no field {shown!r}; its fields are {', '.join(keys)}{hint}"
                self.faults.append(self.get(key).make_error(why))
        return self

    def rename_misspelt(self, keys: Iterable[str]) -> BriefValue:
        """Return the table with misspelt keys under the names that are meant, to find faults in their values too."""
        values, lines = dict(self.value), dict(self.lines)
        for key in [key for key in values if key not in keys]:
            meant = find_similar(str(key), keys)
            if meant and meant not in values:
                values[meant] = values.pop(key)
                start, places = (*self.where, key), list(lines.items())
                lines |= {
                    (*self.where, meant, *at[len(start) :]): line for at, line in places if at[: len(start)] == start
                }
        return replace(self, value=values, lines=lines)

    def lacks(self, name: str, keys: Iterable[str]) -> bool:
        """Return whether a field is missing and no misspelt key resembles it."""
        if self.has(name):
            return False
        return all(key in keys or find_similar(str(key), keys) != name for key in self.value)


def find_similar(word: str, choices: Iterable[str]) -> str:
    """Return the choice that is spelt most like `word`, or `""` if none is similar."""
    names = list(choices)
    other = _SIMILAR_NAMES.get(word, "")
    close = [other] if other in names else get_close_matches(word.strip().lower(), names, n=1)
    return close[0] if close else ""


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
    """Return whether a value can be written as JSON in UTF-8: no dates, infinities or lone surrogates."""
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
