"""A measure of the wall, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Literal, TypeVar

from hotdesk.dataclass import dataclass
from hotdesk.errors import make_printable

State = Literal["held", "failed", "untested"]
T = TypeVar("T")

THEMES = {
    "machine": "This machine",
    "user": "A desk's user and privileges",
    "calls": "A desk's system calls",
    "network": "A desk's network",
    "files": "A desk's files and devices",
    "limits": "A desk's limits",
    "life": "A desk's life cycle",
}
"""Headings of the themes that group measures, in the order they are shown."""
SEEN = 400
"""Maximum characters of a finding, part of which may come from a desk."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A promise of the wall, and how it is tested."""

    name: str
    """A stable name, for scripts."""
    theme: str
    promise: str
    how: str
    """How it is tested, beginning with the side that observes it: `tested from the host:` or `tested from inside:`."""
    remedy: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was observed when a measure was tested."""

    state: State
    seen: str
    note: str = ""
    """Information for the operator, even if the measure passed."""


@dataclass(frozen=True, slots=True)
class Result:
    """A measure and its finding."""

    measure: Measure
    finding: Finding
    wall: str = ""
    """The wall of the desks it was tested in; empty for the default wall, or if it needs no desk."""


@dataclass(frozen=True, slots=True)
class JudgedMeasure(Generic[T]):
    """A measure, and the function that judges it."""

    measure: Measure
    judge: Callable[[T], Finding]


class SilentProbeError(Exception):
    """A probe did not report an expected value."""


def report_pass(text: str, note: str = "") -> Finding:
    return Finding("held", clean(text), clean(note))


def report_failure(text: str) -> Finding:
    return Finding("failed", clean(text))


def report_untested(why: str) -> Finding:
    return Finding("untested", clean(why))


def report_flaws(flaws: Sequence[str], fine: str, note: str = "") -> Finding:
    return report_failure(", ".join(flaws)) if flaws else report_pass(fine, note)


def clean(text: str) -> str:
    return make_printable(text if len(text) <= SEEN else f"{text[:SEEN]} …")


def judge(checks: Iterable[JudgedMeasure[T]], gathered: T) -> Iterator[Result]:
    """Judge all checks by the gathered facts. A missing or unreadable fact counts as failed."""
    for check in checks:
        try:
            finding = check.judge(gathered)
        except SilentProbeError as e:
            finding = report_failure(f"the test program in the desk gave no valid result: {e}")
        except (OSError, ValueError, KeyError, IndexError) as e:
            finding = report_failure(f"the result could not be read: {type(e).__name__} {e}")
        yield Result(check.measure, finding)


def give_up(checks: Iterable[JudgedMeasure[T]], finding: Finding) -> Iterator[Result]:
    for check in checks:
        yield Result(check.measure, finding)
