"""A range of expected counts."""

from __future__ import annotations

from hotdesk.dataclass import dataclass

MAX_COUNT = 10_000_000
"""The largest count of anything."""


@dataclass(frozen=True, slots=True)
class Span:
    """A minimum and a maximum, both inclusive."""

    least: int = 0
    most: int = MAX_COUNT

    def __contains__(self, count: float) -> bool:
        return self.least <= count <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        return f"at least {self.least}" if self.most == MAX_COUNT else f"{self.least} to {self.most}"


def read_span(value: object) -> Span:
    """Read a number, or a table with `min` and `max`; raise `ValueError` for anything else."""
    match value:
        case bool():
            pass
        case int() if 0 <= value <= MAX_COUNT:
            return Span(value, value)
        case dict() if value and set(value) <= {"min", "max"} and all(type(each) is int for each in value.values()):
            span = Span(value.get("min", 0), value.get("max", MAX_COUNT))
            if 0 <= span.least <= span.most <= MAX_COUNT:
                return span
    raise ValueError("expected a whole number, or a range such as {min = 1, max = 9}")


def format_count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
