"""Where the time of a job went: models, tools, checks of what they made, and all else, which is hotdesk's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.cli.board.state import extract_words
from hotdesk.drive.journal import FILE, read
from hotdesk.errors import make_printable
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
from hotdesk.keys.certify import RECORDED

LONGEST = 400
CHECKS = "check in a second desk"


@dataclass
class Numbers:
    """Seconds, by phase."""

    phases: dict[str, float] = field(default_factory=dict)
    """All seconds of each."""
    work: dict[str, float] = field(default_factory=dict)
    """Those of them in which a tool was at work."""
    model: dict[str, float] = field(default_factory=dict)
    """Those of them in which a model was waited for."""
    turns: int = 0
    """How often a model replied."""

    def add(self, phase: str, seconds: float, work: float = 0.0, model: float = 0.0) -> None:
        """Count seconds to a phase; no more can be work or waiting than there were."""
        model = min(model, seconds)
        work = min(work, seconds - model)
        for counts, part in ((self.phases, seconds), (self.work, work), (self.model, model)):
            counts[phase] = counts.get(phase, 0) + part

    @property
    def whole(self) -> float:
        """Give all seconds."""
        return sum(self.phases.values())

    @property
    def checks(self) -> float:
        """Give the seconds in which checks looked at what was made; opening their desk is not among them."""
        return self.phases.get(CHECKS, 0)

    @property
    def own(self) -> float:
        """Give the seconds that were neither a model's nor a tool's nor a check's."""
        return self.whole - sum(self.work.values()) - sum(self.model.values()) - self.checks

    def own_per_turn(self) -> float:
        """Give hotdesk's own milliseconds for each turn of a step, models and tools excluded."""
        steps = [name for name in self.phases if name.startswith("step ")]
        own = sum(self.phases[name] - self.work[name] - self.model[name] for name in steps)
        return 1000 * own / self.turns if self.turns else 0.0

    def lines(self) -> Iterator[str]:
        """Write the table."""
        yield f"{'phase':<34}{'seconds':>9}{'model':>9}{'work':>9}{'checks':>9}{'hotdesk':>9}"
        for name, seconds in self.phases.items():
            checks = seconds if name == CHECKS else 0.0
            yield row(name, seconds, self.model[name], self.work[name], checks)
        yield row("all of the job", self.whole, sum(self.model.values()), sum(self.work.values()), self.checks)

    def told(self) -> str:
        """Say whose the seconds were."""
        parts = (sum(self.model.values()), sum(self.work.values()), self.checks, self.own)
        model, work, checks, own = (f"{part:.1f} s, {part / self.whole:.1%}" for part in parts)
        turns = f" ({self.own_per_turn():.0f} ms a turn of {self.turns})" if self.turns else ""
        waited = f"waiting for the model {model}; " if parts[0] else ""
        return (
            f"of the job: {waited}the worker's tools {work}; checks of what it made {checks}; "
            f"hotdesk's own part {own}{turns}"
        )


def row(name: str, seconds: float, model: float, work: float, checks: float) -> str:
    """Write a line of the table."""
    own = seconds - model - work - checks
    return f"{name:<34}{seconds:>9.1f}{model:>9.1f}{work:>9.1f}{checks:>9.1f}{own:>9.1f}"


def of_job(home: Path, job: str, wall: float) -> Numbers:
    """Read a job's journal; `wall` is how long its process ran."""
    made = of_events([(row.at / 1000, row.read_event()) for row in read(home / "lib/keys" / FILE, job)])
    made.add("start and end of the process", wall - sum(made.phases.values()))
    return made


def of_events(rows: Sequence[tuple[float, Event]]) -> Numbers:
    """Count the seconds between events: those a reply took are the model's, those a use took are the tool's."""
    made, before, phase = Numbers(), rows[0][0], "begin and plan"
    for at, event in rows:
        work = event.ms / 1000 if isinstance(event, Observed) else 0.0
        model = event.ms / 1000 if isinstance(event, Thought) and is_asked(event) else 0.0
        made.turns += isinstance(event, Thought) and bool(event.step)
        made.add(phase, at - before, work, model)
        phase, before = after(event, phase), at
    return made


def is_asked(event: Thought) -> bool:
    """Say whether a model was asked: a script's decisions take our own time."""
    return not event.model.startswith(RECORDED)


def words(home: Path, job: str) -> Iterator[str]:
    """Give what the worker said on its way, and of each step when it was done; it quotes its desk."""
    kept = papers.find(home / "lib/jobs", job)
    for row in read(home / "lib/keys" / FILE, job):
        match row.read_event():
            case Thought(step=step, paper=paper) if told := extract_words(kept.read_text(paper)):
                yield f"{step:<9}{make_printable(told[:LONGEST])}"
            case Summed(step=step, paper=paper):
                yield f"{step:<9}{make_printable(kept.read_text(paper)[:LONGEST])}"


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
