"""The receipt of a job, folded from its events: files, checks, network use, costs and what was left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.event import Alarm, Certified, Event, JobBurnt, Kept, StepBegun, Verified
from hotdesk.job.record.desk_walls import read_walls
from hotdesk.job.record.door_activity import DoorActivity, count_requests
from hotdesk.job.record.progress import ModelCost, StepProgress
from hotdesk.job.record.summary import JobSummary, Outcome
from hotdesk.walls import WallProof


@dataclass(frozen=True, slots=True)
class Requests:
    """The number of requests of one kind."""

    count: int
    verdict: str
    """The door's verdict: `allow`, `deny`, `broken`, `ask` if a person approved it, or `not approved`."""
    method: str
    host: str
    """Host name as the desk gave it, unless the door admitted the request."""
    grants: tuple[str, ...]
    """The grants that were used: secret and host, never a value."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of one ended job."""

    job: str
    goal: str
    outcome: Outcome
    """Outcome; `unknown` if its end was not recorded."""
    why: str
    checks: tuple[Verified, ...]
    kept: tuple[Kept, ...]
    requests: tuple[Requests, ...]
    burnt: tuple[str, ...]
    """Desks that were burnt."""
    left: tuple[str, ...]
    """Desks that are not known to be burnt."""
    brain: str = ""
    seconds: float = 0.0
    """Duration of the work."""
    costs: tuple[ModelCost, ...] = ()
    """Costs by part and model."""
    steps: tuple[StepProgress, ...] = ()
    acts: int = 0
    unknown: tuple[str, ...] = ()
    """Acts with an unknown outcome, such as `17 shell`."""
    alarms: tuple[Alarm, ...] = ()
    certified: tuple[Certified, ...] = ()
    """The latest certificate of each file that has one."""
    cleanup: JobBurnt | None = None
    """What the burn destroyed, kept on purpose and left behind, or `None` if that was not recorded."""
    walls: Mapping[str, WallProof] = field(default_factory=dict)
    """What keepers proved about the walls of its desks, by desk."""


def read_receipt(journal: Path, job: str) -> Receipt:
    events = [(row.at / 1000, row.read_event()) for row in read(journal, job)]
    desks = dict.fromkeys(event.desk for _, event in events if isinstance(event, StepBegun) and event.desk)
    events += [(row.at / 1000, row.read_event()) for desk in desks for row in read(journal, desk)]
    return replace(fold_timed(job, events), walls=read_walls(journal, desks))


def fold(job: str, events: Iterable[Event]) -> Receipt:
    return fold_timed(job, ((0.0, event) for event in events))


def fold_timed(job: str, events: Iterable[tuple[float, Event]]) -> Receipt:
    summary, door = JobSummary(job), DoorActivity()
    for at, event in events:
        summary.take(event, round(at * 1000))
        door.take(event, round(at * 1000))
    return _make_receipt(summary, door)


def _make_receipt(summary: JobSummary, door: DoorActivity) -> Receipt:
    """Make the receipt of a job that does not run: everything under way counts as interrupted."""
    progress, cleanup = summary.course, summary.receipt
    progress.break_off(progress.last)
    # The event of the clean-up also names desks without an end event.
    destroyed = cleanup.destroyed if cleanup is not None else ()
    gone = {desk: burnt or f"desk {desk}" in destroyed for desk, burnt in progress.desks.items()}
    outcome, why = summary.outcome
    return Receipt(
        job=summary.job,
        goal=summary.goal,
        outcome=outcome,
        why=why,
        checks=tuple(summary.checks),
        kept=tuple(summary.kept),
        requests=tuple(Requests(count, *kind) for kind, count in count_requests(door.exchanges)),
        burnt=tuple(desk for desk in gone if gone[desk]),
        left=tuple(desk for desk in gone if not gone[desk]),
        brain=summary.brain,
        seconds=progress.compute_elapsed(progress.last),
        costs=tuple(progress.shares.values()),
        steps=tuple(progress.steps.values()),
        acts=progress.acts,
        unknown=tuple(progress.unknown),
        alarms=tuple(door.alarms),
        certified=tuple({each.path: each for each in summary.certified}.values()),
        cleanup=cleanup,
    )
