"""What became of one job, folded from its events: what was made and kept, how it was checked, what went where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hotdesk.drive.journal import read
from hotdesk.event import Event, Exchange, JobBegun, JobEnded, Kept, StepBegun, StepEnded, Verified


@dataclass(frozen=True, slots=True)
class Requests:
    """How many requests of one kind there were."""

    count: int
    verdict: str
    """What the door said: `allow`, `deny`, `ask` or `broken`."""
    method: str
    host: str
    """A desk's word, unless the door admitted it."""
    grants: tuple[str, ...]
    """Which secrets went along, and where. Never a value."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """One job, over."""

    job: str
    goal: str
    outcome: Literal["done", "failed", "broken", "interrupted", "unknown"]
    """`unknown`: nobody wrote down how it ended."""
    why: str
    checks: tuple[Verified, ...]
    kept: tuple[Kept, ...]
    requests: tuple[Requests, ...]
    burnt: tuple[str, ...]
    """Desks that were burnt."""
    left: tuple[str, ...]
    """Desks of which that is not known."""


def read_receipt(journal: Path, job: str) -> Receipt:
    """Read a job's events, and those of its desks."""
    events = [row.event() for row in read(journal, job)]
    desks = dict.fromkeys(event.desk for event in events if isinstance(event, StepBegun) and event.desk)
    return fold(job, [*events, *(row.event() for desk in desks for row in read(journal, desk))])


def fold(job: str, events: Iterable[Event]) -> Receipt:
    """Make a receipt of events."""
    goal, outcome, why = "", "unknown", ""
    opened: dict[str, bool] = {}
    checks, kept, requests = [], [], Counter[tuple[str, str, str, tuple[str, ...]]]()
    for event in events:
        match event:
            case JobBegun():
                goal = event.goal
            case JobEnded():
                outcome, why = event.outcome, event.why
            case StepBegun(step="desk", desk=desk):
                opened[desk] = False
            case StepEnded(step="desk", desk=desk):
                opened[desk] = event.outcome == "done"
            case Verified():
                checks.append(event)
            case Kept():
                kept.append(event)
            case Exchange() if event.step:  # before its first step a desk only tries its own way out
                requests[event.verdict, event.method, event.host, event.grants] += 1
    counted = tuple(Requests(count, *of) for of, count in sorted(requests.items()))
    burnt, left = (tuple(desk for desk, gone in opened.items() if gone is which) for which in (True, False))
    return Receipt(job, goal, outcome, why, tuple(checks), tuple(kept), counted, burnt, left)  # type: ignore[arg-type]
