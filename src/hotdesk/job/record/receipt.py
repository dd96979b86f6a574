"""What became of one job, folded from its events: what was made and kept, how it was checked, what went where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hotdesk.drive.journal import read
from hotdesk.event import (
    Alarm,
    Certified,
    Event,
    Exchange,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    Resumed,
    StepBegun,
    StepEnded,
    Verified,
)
from hotdesk.job.record.progress import ModelCost, Progress, StepProgress


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
    outcome: Literal["done", "failed", "broken", "interrupted", "paused", "unknown"]
    """`unknown`: nobody wrote down how it ended."""
    why: str
    checks: tuple[Verified, ...]
    kept: tuple[Kept, ...]
    requests: tuple[Requests, ...]
    burnt: tuple[str, ...]
    """Desks that were burnt."""
    left: tuple[str, ...]
    """Desks of which that is not known."""
    brain: str = ""
    seconds: float = 0.0
    """How long it was worked at."""
    costs: tuple[ModelCost, ...] = ()
    """By part and model."""
    steps: tuple[StepProgress, ...] = ()
    acts: int = 0
    unknown: tuple[str, ...] = ()
    """Acts of which nobody knows what came: `17 shell`."""
    alarms: tuple[Alarm, ...] = ()
    certified: tuple[Certified, ...] = ()
    """The latest certificate of each file that has one."""
    ashes: JobBurnt | None = None
    """What burning destroyed, kept on purpose, found left; None: it was not written down."""


def read_receipt(journal: Path, job: str) -> Receipt:
    """Read a job's events, and those of its desks."""
    events = [(row.at / 1000, row.event()) for row in read(journal, job)]
    desks = dict.fromkeys(event.desk for _, event in events if isinstance(event, StepBegun) and event.desk)
    return fold_timed(job, [*events, *((row.at / 1000, row.event()) for desk in desks for row in read(journal, desk))])


def fold(job: str, events: Iterable[Event]) -> Receipt:
    """Make a receipt of events whose times are not known."""
    return fold_timed(job, ((0.0, event) for event in events))


def fold_timed(job: str, events: Iterable[tuple[float, Event]]) -> Receipt:
    """Make a receipt of events, each with its time in seconds since 1970."""
    goal, brain, outcome, why = "", "", "unknown", ""
    opened: dict[str, bool] = {}
    checks, kept, requests = [], [], Counter[tuple[str, str, str, tuple[str, ...]]]()
    alarms, ashes, course = [], None, Progress()
    certified: dict[str, Certified] = {}
    for at, event in events:
        course.take(event, at)
        match event:
            case JobBegun():
                goal, brain = event.goal, event.brain
            case JobEnded():
                outcome, why = event.outcome, event.why
            case JobPaused():
                outcome, why = "paused", event.why
            case Resumed():
                outcome, why = "unknown", ""
            case StepBegun(step="desk", desk=desk):
                opened[desk] = False
            case StepEnded(step="desk", desk=desk):
                opened[desk] = event.outcome == "done"
            case Verified():
                checks.append(event)
            case Kept():
                kept.append(event)
            case Certified():
                certified[event.path] = event
            case Exchange() if event.step:  # before its first step a desk only tries its own way out
                requests[event.verdict, event.method, event.host, event.grants] += 1
            case Alarm():
                alarms.append(event)
            case JobBurnt():
                ashes = event  # it was looked for desks of which nobody saw the end
                opened |= {desk: True for desk in opened if f"desk {desk}" in event.destroyed}
    course.break_off(course.last)
    return Receipt(
        job=job,
        goal=goal,
        outcome=outcome,  # type: ignore[arg-type]
        why=why,
        checks=tuple(checks),
        kept=tuple(kept),
        requests=tuple(Requests(count, *of) for of, count in sorted(requests.items())),
        burnt=tuple(desk for desk, gone in opened.items() if gone),
        left=tuple(desk for desk, gone in opened.items() if not gone),
        brain=brain,
        seconds=course.elapsed(course.last),
        costs=tuple(course.shares.values()),
        steps=tuple(course.steps.values()),
        acts=course.acts,
        unknown=tuple(course.unknown),
        alarms=tuple(alarms),
        certified=tuple(certified.values()),
        ashes=ashes,
    )
