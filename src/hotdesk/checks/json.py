"""The check of a JSON document: it parses unambiguously and has the required content."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Annotated, ClassVar

from hotdesk.checks.batch import LookRequest
from hotdesk.checks.evidence import limit_faults, look, make_unreadable_verdict, read_json, read_text
from hotdesk.checks.expectations import MOST_WORDS, Counts, Table, Texts, read_expectations
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Verdict
from hotdesk.checks.sentences import show, show_count
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable
from hotdesk.strict import Length

EXAMPLE = '{required = ["orders[].id"], types = {total = "number"}, lengths = {orders = {min = 1}}}'
LOOKED_FOR = ("opens", "required", "types", "lengths", "values")
REMEDIES: Mapping[str, str] = {
    "opens": "Write JSON in UTF-8, as `json.dump` does: no comments, no NaN, no duplicate keys.",
    "required": "Add the missing value at this place.",
    "types": "Write a value of the expected type at this place.",
    "lengths": "Correct the number of items, or of characters in a text, to the expected length.",
    "values": "Write exactly the expected value at this place.",
}
KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "list": (list,),
    "table": (dict,),
    "null": (type(None),),
}
TYPES: Mapping[str, str] = {
    "text": "a text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "list": "a list",
    "table": "an object",
    "null": "null",
}
"""The name of each type in messages."""
MOST_PLACES = 100_000


def _require_kind(name: str) -> str:
    if name not in KINDS:
        raise ValueError(f"expected one of {', '.join(KINDS)}")
    return name


class _NothingHere:
    """Marks a place without a value."""


NOTHING = _NothingHere()


@dataclass(frozen=True, slots=True)
class JsonCheck:
    """Expectations of a JSON document. Places are written as `orders[].id`, where `[]` means every item of a list."""

    image: ClassVar[str] = "base"
    alone: ClassVar[bool] = False
    beside: ClassVar[tuple[str, ...]] = ()
    required: Texts = ()
    types: Annotated[Mapping[str, Annotated[str, _require_kind]], Length(MOST_WORDS)] = field(default_factory=dict)
    lengths: Counts = field(default_factory=dict)
    values: Table = field(default_factory=dict)

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> JsonCheck:
        return read_expectations(cls, "json", expect, EXAMPLE)

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("parts of the document that the brief does not name",)

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(self.list_requirements())

    def list_requirements(self) -> Iterator[str]:
        """Describe the requirements of every document, then the expected content; `[]` means every item of a list."""
        yield "It must be JSON in UTF-8: no comments, no NaN or Infinity, no duplicate keys in an object."
        for place in self.required:
            yield f"{_show_place(place)} must exist."
        for place, kind in self.types.items():
            yield f"{_show_place(place)} must be {TYPES[kind]}."
        for place, span in self.lengths.items():
            unit = "character" if self.types.get(place) == "text" else "item"
            yield f"{_show_place(place)} must have {show_count(span, unit)}."
        for place, value in self.values.items():
            yield f"{_show_place(place)} must be exactly {show(json.dumps(value, default=str))}."

    def ask_look(self, path: str, beside: str) -> LookRequest:
        return LookRequest("json_look", {"path": path})

    async def gather(self, desk: Desk, path: str) -> Evidence:
        return await look(desk, "json_look", {"path": path})

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            document = _read_document(evidence.report)
            faults, more = limit_faults(self.find_faults(document), REMEDIES)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "JSON", e, REMEDIES["opens"])
        kind = get_kind(document)
        rules = len(self.required) + len(self.types) + len(self.lengths) + len(self.values)
        return Verdict(LOOKED_FOR, faults, (f"a {kind}; {rules} requirements met",), {"kind": kind}, more=more)

    def find_faults(self, document: object) -> Iterator[Fault]:
        for place in self.required:
            for where, value in _find_values(document, place):
                if value is NOTHING:
                    yield make_fault("required", where, "a value", value)
        for place, kind in self.types.items():
            for where, value in _find_values(document, place):
                if not _is_kind(value, kind):
                    yield make_fault("types", where, TYPES[kind], value)
        for place, span in self.lengths.items():
            for where, value in _find_values(document, place):
                size = len(value) if isinstance(value, str | list | dict) else None
                if size is None or size not in span:
                    text = f"{_name_kind(value)} of {size}" if size is not None else _name_kind(value)
                    yield Fault("lengths", where, f"a length of {span}", text)
        for place, expected in self.values.items():
            for where, value in _find_values(document, place):
                if value != expected or type(value) is not type(expected):
                    yield make_fault("values", where, read_text(repr(expected)), value)


def _find_values(document: object, place: str) -> Iterator[tuple[str, object]]:
    """Yield every value at a place, or `NOTHING` if there is none."""
    at: list[tuple[str, object]] = [("", document)]
    for step in split_place(place):
        at = [each for where, value in at for each in _step_into(where, value, step)]
        if len(at) > MOST_PLACES:
            raise ValueError(
                f"{_show_place(place)} matches more than {MOST_PLACES} values, the most that can be checked"
            )
    yield from ((make_printable(where[:200]), value) for where, value in at)


def split_place(place: str) -> Iterator[str]:
    """Split a place into names and `[]`."""
    for part in filter(None, place.split(".")):
        name, *lists = part.split("[]")
        yield from filter(None, (name,))
        yield from ("[]" for _ in lists)


def _step_into(where: str, value: object, step: str) -> Iterator[tuple[str, object]]:
    if step == "[]":
        if isinstance(value, list):
            yield from ((f"{where}[{number}]", each) for number, each in enumerate(value))
        else:
            yield f"{where}[]", NOTHING
    else:
        there = f"{where}.{step}".lstrip(".")
        yield there, value.get(step, NOTHING) if isinstance(value, dict) else NOTHING


def _is_kind(value: object, kind: str) -> bool:
    """Return whether a value is of a kind; a boolean is not a number."""
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))


def get_kind(value: object) -> str:
    return next((kind for kind in ("integer", *KINDS) if _is_kind(value, kind)), "nothing")


def _name_kind(value: object) -> str:
    return TYPES.get(get_kind(value), "nothing")


def _show_place(place: str) -> str:
    return f"`{show(place)}`" if place else "The whole document"


def make_fault(rule: str, where: str, expected: str, value: object) -> Fault:
    short = isinstance(value, str | int | float | bool) or value is None
    return Fault(rule, where, expected, read_text(repr(value), 100) if short else _name_kind(value))


def _read_document(report: bytes) -> object:
    """Parse the desk's report; return the document in it."""
    match read_json(report):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be read as JSON: {make_printable(why[:200])}")
        case {"document": document, **more} if not more:
            return document
        case _:
            raise MalformedReportError
