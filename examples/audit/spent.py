"""Where the time of a job went: models, tools, checks, and the rest, which is hotdesk's own."""

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

MAX_COMMENT_CHARS = 400
CHECKS = "check in a second desk"


@dataclass
class PhaseTimes:
    """Seconds, by phase."""

    phases: dict[str, float] = field(default_factory=dict)
    """All seconds of a phase."""
    work: dict[str, float] = field(default_factory=dict)
    """The seconds of these in which a tool worked."""
    model: dict[str, float] = field(default_factory=dict)
    """The seconds of these spent waiting for a model."""
    turns: int = 0
    """Replies of the model."""

    def add(self, phase: str, seconds: float, work: float = 0.0, model: float = 0.0) -> None:
        """Add seconds to a phase. `work` and `model` are parts of `seconds`, and cut to it."""
        model = min(model, seconds)
        work = min(work, seconds - model)
        for counts, part in ((self.phases, seconds), (self.work, work), (self.model, model)):
            counts[phase] = counts.get(phase, 0) + part

    @property
    def total(self) -> float:
        """All seconds."""
        return sum(self.phases.values())

    @property
    def checks(self) -> float:
        """The seconds of checks, without the opening of their desk."""
        return self.phases.get(CHECKS, 0)

    @property
    def own(self) -> float:
        """The seconds of neither model, tools nor checks."""
        return self.total - sum(self.work.values()) - sum(self.model.values()) - self.checks

    def compute_own_per_turn(self) -> float:
        """Return hotdesk's own milliseconds for each turn of a step, without models and tools."""
        steps = [name for name in self.phases if name.startswith("step ")]
        own = sum(self.phases[name] - self.work[name] - self.model[name] for name in steps)
        return 1000 * own / self.turns if self.turns else 0.0

    def format_table(self) -> Iterator[str]:
        """Yield the lines of the table."""
        yield f"{'phase':<34}{'seconds':>9}{'model':>9}{'work':>9}{'checks':>9}{'hotdesk':>9}"
        for name, seconds in self.phases.items():
            checks = seconds if name == CHECKS else 0.0
            yield format_row(name, seconds, self.model[name], self.work[name], checks)
        yield format_row("all of the job", self.total, sum(self.model.values()), sum(self.work.values()), self.checks)

    def summarize(self) -> str:
        """Return one sentence: the share of model, tools, checks and hotdesk."""
        parts = (sum(self.model.values()), sum(self.work.values()), self.checks, self.own)
        model, work, checks, own = (f"{part:.1f} s, {part / self.total:.1%}" for part in parts)
        turns = f" ({self.compute_own_per_turn():.0f} ms a turn of {self.turns})" if self.turns else ""
        waiting = f"waiting for the model {model}; " if parts[0] else ""
        return (
            f"Of the job: {waiting}the worker's tools {work}; checks of its results {checks}; "
            f"hotdesk itself {own}{turns}"
        )


def format_row(name: str, seconds: float, model: float, work: float, checks: float) -> str:
    own = seconds - model - work - checks
    return f"{name:<34}{seconds:>9.1f}{model:>9.1f}{work:>9.1f}{checks:>9.1f}{own:>9.1f}"


def measure_job(home: Path, job: str, wall: float) -> PhaseTimes:
    """Measure a job by its journal; `wall` is how long its process ran, in seconds."""
    times = measure_events([(row.at / 1000, row.read_event()) for row in read(home / "lib/keys" / FILE, job)])
    times.add("start and end of the process", wall - times.total)
    return times


def measure_events(rows: Sequence[tuple[float, Event]]) -> PhaseTimes:
    """Add up the seconds between events; replies are the model's time, acts are the tools'."""
    times, before, phase = PhaseTimes(), rows[0][0], "begin and plan"
    for at, event in rows:
        work = event.ms / 1000 if isinstance(event, Observed) else 0.0
        model = event.ms / 1000 if isinstance(event, Thought) and is_from_model(event) else 0.0
        times.turns += isinstance(event, Thought) and bool(event.step)
        times.add(phase, at - before, work, model)
        phase, before = choose_phase(event, phase), at
    return times


def is_from_model(event: Thought) -> bool:
    """Return whether a model decided: a script's decisions are hotdesk's own time."""
    return not event.model.startswith(RECORDED)


def list_comments(home: Path, job: str) -> Iterator[str]:
    """Yield the worker's comments and its summary of each step. They may quote the desk, so they are made printable."""
    store = papers.find(home / "lib/jobs", job)
    for row in read(home / "lib/keys" / FILE, job):
        match row.read_event():
            case Thought(step=step, paper=paper) if comment := extract_words(store.read_text(paper)):
                yield f"{step:<9}{make_printable(comment[:MAX_COMMENT_CHARS])}"
            case Summed(step=step, paper=paper):
                yield f"{step:<9}{make_printable(store.read_text(paper)[:MAX_COMMENT_CHARS])}"


def choose_phase(event: Event, phase: str) -> str:
    """Return the phase that begins with an event."""
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
