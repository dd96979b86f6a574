"""How many of something there shall be, and are."""

from __future__ import annotations

from dataclasses import dataclass

MOST = 10_000_000
"""The largest number of anything that is counted."""


@dataclass(frozen=True, slots=True)
class Span:
    """The least and the most."""

    least: int = 0
    most: int = MOST

    def __contains__(self, count: float) -> bool:
        return self.least <= count <= self.most

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        return f"at least {self.least}" if self.most == MOST else f"{self.least} to {self.most}"


def read_span(told: object) -> Span:
    """Read a number, or a table of the least and the most; `ValueError` for anything else."""
    match told:
        case bool():
            pass
        case int() if 0 <= told <= MOST:
            return Span(told, told)
        case dict() if told and set(told) <= {"min", "max"} and all(type(each) is int for each in told.values()):
            span = Span(told.get("min", 0), told.get("max", MOST))
            if 0 <= span.least <= span.most <= MOST:
                return span
    raise ValueError("a number, or {min = 1, max = 9}")


def many(count: int, word: str) -> str:
    """Write how many of something there are."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
