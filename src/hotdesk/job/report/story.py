"""The timeline of a job: its events and those of its desks in order, joined with the papers they name.

The report and the API's timeline are two views of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hotdesk.checks.seam import Fault
from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.journal import read
from hotdesk.event import (
    Acted,
    Event,
    Observed,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    Verified,
)
from hotdesk.job.event_text import describe
from hotdesk.job.record.summary import select_latest
from hotdesk.job.report.facts import Attempted, Moment, ToolUse
from hotdesk.job.report.paper_text import PaperReader, describe_failure, describe_use, format_one_line, read_output
from hotdesk.job.report.pictures import OURS as DRAWN_HERE
from hotdesk.plan import OURS


@dataclass(slots=True)
class Timeline:
    """The timeline of one job, folded from its events, which must come in order."""

    reading: PaperReader
    timeline: list[Attempted | Moment] = field(default_factory=list)
    attempts: list[Attempted] = field(default_factory=list)
    acts: dict[int, ToolUse] = field(default_factory=dict)
    looks: dict[str, list[Verified]] = field(default_factory=dict)
    """Every verdict, by deliverable."""
    unread: int = 0
    """Pictures that were made in a desk and are therefore not opened on the host."""
    words: str = ""
    """The text of the latest reply, until an act follows it."""

    def take(self, event: Event, at: int, number: int = 0) -> None:
        """Apply one event; `number` is its number in the journal."""
        match event:
            case StepBegun() | StepEnded() | RolledBack() | Summed():
                self.take_step(event, at, number)
            case Thought() | Acted() | Observed():
                self.take_turn(event, at, number)
            case Verified():
                self.looks.setdefault(event.path, []).append(event)
        if isinstance(event, SentBack):
            self.timeline.append(self.describe_sent_back(event, at, number))
        elif (entry := describe(event).entry) is not None:
            self.timeline.append(Moment(at, *entry, number=number, changed=number))

    def take_step(self, event: StepBegun | StepEnded | RolledBack | Summed, at: int, number: int) -> None:
        last = next((each for each in reversed(self.attempts) if each.step == event.step), None)
        match event:
            case StepBegun() if event.step not in OURS:
                attempt = 1 if last is None else last.attempt + 1
                last = Attempted(at, event.step, attempt, event.what, event.model, number=number)
                self.attempts.append(last)
                self.timeline.append(last)
            case StepEnded() if last is not None:
                last.ended, last.outcome, last.note = at, event.outcome, event.note
                if event.paper:
                    last.note = f"{last.note}: {self.reading.read_text(event.paper)}".removeprefix(": ")
            case RolledBack() if last is not None:
                last.rolled_back = True
            case Summed() if last is not None:
                last.leaves = self.reading.read_text(event.paper)
        if last is not None:
            last.changed = number

    def take_turn(self, event: Thought | Acted | Observed, at: int, number: int) -> None:
        match event:
            case Thought() if event.step and not event.is_unused:
                reply = self.reading.read_json(event.paper)
                self.words = format_one_line(str(reply.get("text") or reply.get("thought") or ""))
            case Acted():
                call = describe_use(self.reading.read_json(event.paper))
                act = ToolUse(event.act, event.tool, at, call, self.words, call_paper=event.paper, changed=number)
                self.acts[event.act], self.words = act, ""
                for last in self.attempts[-1:]:
                    last.acts.append(act)
                    act.attempt = last.number
            case Observed() if event.act in self.acts:
                self.observe(self.acts[event.act], event)
                self.acts[event.act].changed = number

    def observe(self, act: ToolUse, event: Observed) -> None:
        act.outcome, act.ms, act.paper = event.outcome, event.ms, event.paper
        observation = self.reading.read_json(event.paper)
        if event.outcome == "failed":
            act.words = describe_failure(observation)
        else:
            act.output = format_one_line(read_output(observation).text)
        if observation.get("image"):
            act.has_picture = act.tool.startswith(DRAWN_HERE)
            self.unread += not act.has_picture

    def describe_sent_back(self, event: SentBack, at: int, number: int) -> Moment:
        faults: list[Fault] = []
        findings: list[str] = []
        for look in select_latest(self.looks.get(event.path, ())):
            verdict = self.reading.read_verdict(look.paper) if look.outcome == "failed" else None
            faults += verdict.faults if verdict is not None else ()
            findings += verdict.findings if verdict is not None else ()
        faults, findings = list(dict.fromkeys(faults)), list(dict.fromkeys(findings))
        words = "" if faults else self.reading.read_text(event.paper)
        title = f"{event.path} failed its check and went back to step {event.step}"
        return Moment(at, title, words, "bad", tuple(faults), tuple(findings), number, number)


@dataclass(slots=True)
class Following:
    """A timeline that follows a running job."""

    job: str
    story: Timeline
    last: int = 0
    """Number of the last journal row that was read."""
    desks: set[str] = field(default_factory=set)

    def read_on(self, journal: Path) -> None:
        for row in self.iterate_rows(journal):
            self.last = row.id
            with suppress(ValueError, RecursionError):
                self.story.take(row.read_event(), row.at, row.id)

    def iterate_rows(self, journal: Path) -> Iterator[Row]:
        """Yield the next events, including those of a desk once an event has named it."""
        again = journal.exists()
        while again:
            again = False
            for row in read(journal, sorted({self.job, *self.desks}), after=self.last):
                yield row
                if (desk := find_desk(row)) and desk not in self.desks:
                    self.desks.add(desk)
                    again = True
                    break


def find_desk(row: Row) -> str:
    if row.name in (StepBegun.__name__, Verified.__name__):
        with suppress(ValueError, RecursionError):
            return str(getattr(row.read_event(), "desk", ""))
    return ""
