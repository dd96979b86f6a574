"""Where the time of a job went: tools at work, checks of what they made, and all else, which is hotdesk's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.cli.board.state import words_of
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import printable
from hotdesk.event import (
    Event,
    JobBegun,
    JobEnded,
    Kept,
    Observed,
    Planned,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    Verified,
)
from hotdesk.job.record import papers

LONGEST = 400
CHECKS = "check in a second desk"


@dataclass
class Numbers:
    """Seconds, by phase."""

    phases: dict[str, float] = field(default_factory=dict)
    """All seconds of each."""
    work: dict[str, float] = field(default_factory=dict)
    """Those of them in which a tool was at work."""

    def add(self, phase: str, seconds: float, work: float = 0.0) -> None:
        """Count seconds to a phase."""
        self.phases[phase] = self.phases.get(phase, 0) + seconds
        self.work[phase] = self.work.get(phase, 0) + work

    @property
    def whole(self) -> float:
        """Give all seconds."""
        return sum(self.phases.values())

    @property
    def checks(self) -> float:
        """Give the seconds in which checks looked at what was made; opening their desk is not among them."""
        return self.phases.get(CHECKS, 0)

    def lines(self) -> Iterator[str]:
        """Write the table."""
        yield f"{'phase':<34}{'seconds':>9}{'work':>9}{'checks':>9}{'hotdesk':>9}"
        for name, seconds in self.phases.items():
            checks = seconds if name == CHECKS else 0.0
            yield row(name, seconds, self.work[name], checks)
        yield row("all of the job", self.whole, sum(self.work.values()), self.checks)

    def told(self) -> str:
        """Say whose the seconds were."""
        tools = sum(self.work.values())
        parts = (tools, self.checks, self.whole - tools - self.checks)
        work, checks, own = (f"{part:.1f} s, {part / self.whole:.1%}" for part in parts)
        return f"of the job: the worker's tools {work}; checks of what it made {checks}; hotdesk's own part {own}"


def row(name: str, seconds: float, work: float, checks: float) -> str:
    """Write a line of the table."""
    return f"{name:<34}{seconds:>9.1f}{work:>9.1f}{checks:>9.1f}{seconds - work - checks:>9.1f}"


def of_job(home: Path, job: str, wall: float) -> Numbers:
    """Read a job's journal; `wall` is how long its process ran."""
    rows = [(row.at / 1000, row.event()) for row in read(home / "lib/keys" / FILE, job)]
    made, before, phase = Numbers(), rows[0][0], "begin and plan"
    for at, event in rows:
        made.add(phase, at - before, event.ms / 1000 if isinstance(event, Observed) else 0.0)
        phase, before = after(event, phase), at
    made.add("start and end of the process", wall - sum(made.phases.values()))
    return made


def words(home: Path, job: str) -> Iterator[str]:
    """Give what the worker said on its way, and of each step when it was done; it quotes its desk."""
    kept = papers.find(home / "lib/jobs", job)
    for row in read(home / "lib/keys" / FILE, job):
        match row.event():
            case Thought(step=step, paper=paper) if told := words_of(kept.text(paper)):
                yield f"{step:<9}{printable(told[:LONGEST])}"
            case Summed(step=step, paper=paper):
                yield f"{step:<9}{printable(kept.text(paper)[:LONGEST])}"


def after(event: Event, phase: str) -> str:
    """Say which phase begins with an event."""
    match event:
        case JobBegun() | Planned():
            return "begin and plan"
        case StepBegun(step="desk"):
            return "open desks, bring inputs"
        case StepBegun(step="verify"):
            return CHECKS
        case StepBegun(step="keep"):
            return "keep, burn"
        case StepBegun():
            return f"step {event.step}"
        case Summed() | StepEnded() if phase.startswith("step"):
            return "borders of steps"
        case Verified() | Kept() | JobEnded():
            return "keep, burn"
    return phase
