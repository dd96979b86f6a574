"""The state a job resumes from, folded from its events: its summary, and what only resuming needs. No I/O.

A killed job resumes from here. Whatever has no event did not happen, except for the one act that was started.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, field
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.drive.memory import MemoryKind
from hotdesk.event import (
    Acted,
    Amended,
    Checkpointed,
    Decided,
    Event,
    Kept,
    MemoryKept,
    MemoryOffered,
    MemoryStaged,
    Observed,
    Planned,
    Resumed,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    VisionAsked,
)
from hotdesk.job.people.wait import WHILE_WORKING
from hotdesk.job.record.progress import Cost
from hotdesk.job.record.summary import JobSummary
from hotdesk.plan import OURS

ASKS = ("ask_person", "amend_plan", "remember", "recall", "keep_file")
"""Tools whose acts change nothing at a desk. People have already answered a repeated question."""

TURN = (Thought, Acted, Observed, VisionAsked)
"""Events of a worker's turn, which takes place although a question is open only if a resumed job did not repeat it."""


@dataclass(slots=True)
class RecordedTurn:
    """A model's reply and the results of its calls."""

    thought: Thought
    acts: list[Acted] = field(default_factory=list)
    observed: dict[int, Observed] = field(default_factory=dict)

    @property
    def unknown(self) -> list[Acted]:
        return [each for each in self.acts if each.act not in self.observed]


@dataclass(slots=True)
class Spending(Cost):
    """What a job has used."""

    acts: int = 0
    ms: int = 0
    """Milliseconds of work, without waiting for people."""


@dataclass(slots=True)
class ResumeState:
    """The state of one job so far."""

    job: str
    summary: JobSummary = field(init=False)
    planned: Planned | None = None
    amended: Amended | None = None
    """The latest amendment, or `None` if the plan was not amended."""
    finished: dict[str, str] = field(default_factory=dict)
    """The finished steps in order, each with the paper of its summary."""
    current: str = ""
    """The step under way."""
    attempt: int = 0
    turns: list[RecordedTurn] = field(default_factory=list)
    """Turns of the current attempt."""
    again: list[RecordedTurn] = field(default_factory=list)
    """Turns of a finished step that is repeated to restore what no file has, such as a login."""
    tries: list[tuple[str, int, str]] = field(default_factory=list)
    """Failed attempts: step, number and reason."""
    objections: dict[str, list[str]] = field(default_factory=dict)
    """Papers with the reasons why a step's results were sent back, by step."""
    findings: dict[str, list[str]] = field(default_factory=dict)
    """The same for the latest delivery alone."""
    last_summaries: dict[str, str] = field(default_factory=dict)
    """Paper of the last summary of each step that was finished and then sent back."""
    refused: dict[str, list[str]] = field(default_factory=dict)
    """SHA-256 of the files that were sent back, by path."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Number of the latest attempt at each step."""
    attempts_sent_back: dict[str, int] = field(default_factory=dict)
    """Number of the last attempt at each step before it was sent back: the next attempt has a higher one."""
    checkpoint: Checkpointed | None = None
    saved: Checkpointed | None = None
    """The latest checkpoint. One that a finished step left is used only once the step's summary is recorded."""
    kept_before: Checkpointed | None = None
    """The checkpoint that the last finished step left."""
    kept_at: int = 0
    """Time of the latest checkpoint in milliseconds since 1970."""
    stored: dict[str, Kept] = field(default_factory=dict)
    offered: MemoryOffered | None = None
    """The items of earlier jobs that were offered to it."""
    staged: dict[tuple[MemoryKind, str], MemoryStaged] = field(default_factory=dict)
    """Items that its worker stored for later jobs; the latest version of each name."""
    staged_bytes: int = 0
    """Bytes of all staged items, including replaced versions."""
    remembered: dict[tuple[MemoryKind, str], MemoryKept] = field(default_factory=dict)
    """The staged items that are in the memory now."""
    worked_ms: int = 0
    """Milliseconds of work, without waiting for people."""
    last: int = 0
    """Time up to which work was measured, in milliseconds since 1970."""

    def __post_init__(self) -> None:
        self.summary = JobSummary(self.job)

    @property
    def spent(self) -> Spending:
        """A new count of what the job has used, which its log continues."""
        return Spending(**asdict(self.summary.cost), acts=self.summary.course.acts, ms=self.worked_ms)

    @property
    def unknown(self) -> list[Acted]:
        return [act for turn in self.turns for act in turn.unknown]

    @property
    def surfaced(self) -> tuple[str, ...]:
        return tuple(f"{act.act} {act.tool}" for turn in (*self.turns, *self.again) for act in turn.unknown)

    @property
    def goes_on(self) -> bool:
        """Whether the latest checkpoint was made in the middle of the current step."""
        last = self.checkpoint
        return last is not None and last.amid and last.step == self.current

    @property
    def saved_turns(self) -> list[RecordedTurn]:
        act = self.checkpoint.act if self.checkpoint is not None and self.goes_on else 0
        return [turn for turn in self.turns if not turn.unknown and all(each.act <= act for each in turn.acts)]

    @property
    def lost(self) -> list[Acted]:
        saved = self.saved_turns
        acts = (act for turn in self.turns if turn not in saved for act in turn.acts)
        return [act for act in acts if act.tool not in ASKS]

    def take(self, event: Event, at: int) -> None:
        self.measure_work(event, at)
        self.summary.take(event, at)
        match event:
            case Planned():
                self.planned = event
            case Amended():
                self.amended = event
            case StepBegun() | StepEnded() | Summed() | RolledBack():
                self.take_step(event)
            case Thought() | Acted() | Observed():
                self.take_turn(event)
            case Checkpointed():
                self.kept_at, self.saved = at, event
                if event.amid:
                    self.checkpoint = event
            case SentBack():
                self.take_back(event)
            case Kept():
                self.stored[event.path] = event
            case MemoryOffered():
                self.offered = event
            case MemoryStaged():
                self.stage(event)
            case MemoryKept():
                self.remembered[event.kind, event.name] = event

    def measure_work(self, event: Event, at: int) -> None:
        """Add the time since the last event, unless the job was waiting.

        While a question is open, only a worker's turn is work: a job that is stopped while it waits, or gives its desks
        back, did nothing else.
        """
        if isinstance(event, Decided) and self.summary.waiting.history.get(event.id, ("", ""))[0] in WHILE_WORKING:
            return  # the next event tells whether the job was working
        waits = isinstance(event, Resumed | Decided) or (self.has_open_question() and not isinstance(event, TURN))
        if self.last and not waits:
            self.worked_ms += max(0, at - self.last)
        self.last = at

    def has_open_question(self) -> bool:
        return any(each.kind not in WHILE_WORKING for each in self.summary.waiting.open)

    def stage(self, event: MemoryStaged) -> None:
        self.staged[event.kind, event.name] = event
        self.staged_bytes += event.size

    def take_turn(self, event: Thought | Acted | Observed) -> None:
        turns = self.turns if event.step == self.current else self.again
        match event:
            case Thought() if event.step and not event.is_unused:
                turns.append(RecordedTurn(event))
            case Acted():
                turns[-1].acts.append(event)
            case Observed():
                for turn in turns:
                    if any(act.act == event.act for act in turn.acts):
                        turn.observed[event.act] = event

    def take_step(self, event: StepBegun | StepEnded | Summed | RolledBack) -> None:
        match event:
            case StepBegun() if event.step in self.finished:
                self.again = []
            case StepBegun() if event.step not in OURS:
                goes_on = (event.step, event.attempt) == (self.current, self.attempt)
                self.turns = self.saved_turns if goes_on else []
                self.current, self.attempt = event.step, event.attempt
                self.numbers[event.step] = event.attempt
            case Summed():
                self.finished[event.step] = event.paper
                if self.saved is not None and self.saved.step == event.step:
                    self.checkpoint = self.kept_before = self.saved
            case StepEnded() if event.step == self.current:
                if event.outcome == "failed":
                    self.tries.append((event.step, self.attempt, event.note))
                    self.checkpoint = self.kept_before
                self.current, self.turns = "", []

    def take_back(self, event: SentBack) -> None:
        """Mark a finished step as unfinished, because its results were sent back."""
        if event.step in self.finished:  # the first finding of this delivery
            self.last_summaries[event.step] = self.finished.pop(event.step)
            self.findings[event.step] = []
        self.attempts_sent_back[event.step] = self.numbers.get(event.step, 0)
        self.objections.setdefault(event.step, []).append(event.paper)
        self.findings.setdefault(event.step, []).append(event.paper)
        self.refused.setdefault(event.path, []).append(event.sha256)
        self.tries = [each for each in self.tries if each[0] != event.step]


def fold(job: str, rows: Iterable[Row]) -> ResumeState:
    past = ResumeState(job)
    for row in rows:
        past.take(row.read_event(), row.at)
    return past


def read_past(journal: Path, job: str) -> ResumeState:
    return fold(job, read(journal, job))
