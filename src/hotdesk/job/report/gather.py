"""Gathers what a report tells from a job's events, those of its desks, and its papers."""

from __future__ import annotations

import base64
import binascii
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.checks.seam import Fault
from hotdesk.drive.journal import read
from hotdesk.event import (
    Acted,
    Alarm,
    Answered,
    Asked,
    Certified,
    Event,
    Exchange,
    HandedBack,
    Kept,
    Observed,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    Thought,
    TookOver,
    Verified,
)
from hotdesk.job.card_text import KINDS
from hotdesk.job.held import is_held
from hotdesk.job.report.facts import Act, Attempted, Decision, Delivered, Looked, Moment, Report
from hotdesk.job.report.moments import moment_of
from hotdesk.job.report.pictures import OURS as DRAWN_HERE
from hotdesk.job.report.pictures import Album, spread
from hotdesk.job.report.reading import Reading, failure_of, one_line, use_of
from hotdesk.job.tale import Tale
from hotdesk.plan import OURS

PAGES = 4
"""Pages shown of one file."""


@dataclass(slots=True)
class Gathering:
    """Takes a job's events in, in their order."""

    report: Report
    reading: Reading
    album: Album = field(default_factory=Album)
    acts: dict[int, Act] = field(default_factory=dict)
    said: str = ""
    """The worker's last words."""
    checking: int = 0
    """When the check began that is under way."""

    def take(self, event: Event, at: int) -> None:
        """Take one event in."""
        match event:
            case StepBegun() | StepEnded() | RolledBack() | Summed():
                self.take_step(event, at)
            case Thought() | Acted() | Observed():
                self.take_turn(event, at)
            case Verified():
                looks = self.delivered(event.path).looks
                looks[event.check] = Looked(event)
            case Kept():
                self.delivered(event.path).kept = event
            case Certified():
                self.delivered(event.path).certified = event
        if isinstance(event, SentBack):
            self.send_back(event, at)
        elif (told := moment_of(event, at)) is not None:
            self.report.timeline.append(told)

    def delivered(self, path: str) -> Delivered:
        """Give what is known of a deliverable."""
        return self.report.delivered.setdefault(path, Delivered(path))

    def take_step(self, event: StepBegun | StepEnded | RolledBack | Summed, at: int) -> None:
        """Take in how an attempt begins and ends."""
        last = next((each for each in reversed(self.report.attempts) if each.step == event.step), None)
        match event:
            case StepBegun(step="verify"):
                self.checking = at
            case StepEnded(step="verify") if self.checking:
                self.report.checking += (at - self.checking) / 1000
                self.checking = 0
            case StepBegun() if event.step not in OURS:
                number = 1 if last is None else last.number + 1
                self.report.timeline.append(Attempted(at, event.step, number, event.what, event.model))
            case StepEnded() if last is not None:
                last.ended, last.outcome, last.note = at, event.outcome, event.note
                if event.paper:
                    last.note = f"{last.note}: {self.reading.text(event.paper)}".removeprefix(": ")
            case RolledBack() if last is not None:
                last.rolled_back = True
            case Summed() if last is not None:
                last.leaves = self.reading.text(event.paper)

    def take_turn(self, event: Thought | Acted | Observed, at: int) -> None:
        """Take in what was thought and done."""
        match event:
            case Thought() if event.step:
                reply = self.reading.told(event.paper)
                self.said = one_line(str(reply.get("text") or reply.get("thought") or ""))
            case Acted():
                act = Act(event.act, event.tool, at, use_of(self.reading.told(event.paper)), self.said)
                self.acts[event.act], self.said = act, ""
                for last in self.report.attempts[-1:]:
                    last.acts.append(act)
            case Observed() if event.act in self.acts:
                self.observe(self.acts[event.act], event)

    def observe(self, act: Act, event: Observed) -> None:
        """Take in what came of an act."""
        act.outcome, act.ms, act.paper = event.outcome, event.ms, event.paper
        seen = self.reading.told(event.paper)
        if event.outcome == "failed":
            act.words = failure_of(seen)
        if seen.get("image"):
            act.has_picture = act.tool.startswith(DRAWN_HERE)
            self.album.unread += not act.has_picture

    def send_back(self, event: SentBack, at: int) -> None:
        """Tell what went back to the worker, and why."""
        faults: list[Fault] = []
        for look in self.delivered(event.path).looks.values():
            seen = self.reading.seen(look.event.paper) if look.event.outcome == "failed" else None
            faults += seen.faults if seen is not None else ()
        words = "" if faults else self.reading.text(event.paper)
        title = f"{event.path} failed its check and went back to step {event.step}"
        self.report.timeline.append(Moment(at, title, words, "bad", tuple(faults)))

    def finish(self) -> None:
        """Open what is shown of papers: verdicts, pages, screens."""
        for item in self.report.delivered.values():
            for look in item.looks.values():
                look.seen = self.reading.seen(look.event.paper)
                for picture in (look.seen.pictures if look.seen else ())[:PAGES]:
                    if (shown := self.album.page(picture.png)) is not None:
                        look.pages.append(shown)
        taken = [act for act in self.acts.values() if act.has_picture]
        chosen = spread(len(taken), self.album.screens)
        for place, act in enumerate(taken):
            if place in chosen:
                self.show_screen(act)
        self.report.missing = self.reading.missing
        self.report.left_out, self.report.unread = self.album.left_out + len(taken) - len(chosen), self.album.unread

    def show_screen(self, act: Act) -> None:
        """Have the picture of an act shown."""
        with suppress(binascii.Error, ValueError):
            data = base64.b64decode(str(self.reading.told(act.paper).get("image", "")), validate=True)
            act.picture = self.album.screen(data)


def gather(journal: Path, jobs: Path, job: str) -> Report:
    """Gather all that is known of one job now."""
    now = int(time.time() * 1000)
    tale = Tale(job)
    gathering = Gathering(Report(tale, ("unknown", ""), now), Reading(jobs, job))  # type: ignore[arg-type]
    for row in read(journal, job):
        try:
            event = row.event()
        except (ValueError, RecursionError):
            tale.strange += 1
            continue
        tale.take(event, row.at)
        gathering.take(event, row.at)
    report = gathering.report
    gather_desks(report, journal)
    report.state = tale.state(is_held(jobs / job), now)
    report.plan = gathering.reading.plan(tale.plan_paper) if tale.plan_paper else []
    report.decisions = decisions(report)
    report.timeline.sort(key=lambda each: each.at)
    gathering.finish()
    return report


def gather_desks(report: Report, journal: Path) -> None:
    """Take in what happened at the door, and who took the wheel."""
    kinds = (Exchange, Alarm, Asked, Answered, TookOver, HandedBack)
    asked: dict[str, tuple[int, Asked]] = {}
    answered: dict[str, tuple[int, Answered]] = {}
    desks = list(report.tale.desks)
    for row in read(journal, desks, names=[kind.__name__ for kind in kinds]) if desks else ():
        with suppress(ValueError, RecursionError):
            match event := row.event():
                case Exchange() if event.step:  # before its first step a desk only tries its own way out
                    report.exchanges.append(event)
                case Alarm():
                    report.alarms.append(event)
                case Asked():
                    asked[event.id] = (row.at, event)
                case Answered():
                    answered[event.id] = (row.at, event)
            if (told := moment_of(event, row.at)) is not None:
                report.timeline.append(told)
    for number, (at, each) in asked.items():
        when, said = answered.get(number, (at, None))
        report.asked.append((when, each, said))


def decisions(report: Report) -> list[Decision]:
    """List what people or policies were asked for, in the plan and at the door, and what came of it."""
    waiting, made = report.tale.waiting, []
    for number, (kind, step) in waiting.asked.items():
        told, what = waiting.decided.get(number), f"{KINDS[kind]}{f' in step {step}' if step else ''}"
        at = waiting.decided_at.get(number, 0)
        if told is None:
            made.append(Decision(at, what, "nobody decided", "", ""))
        else:
            made.append(Decision(at, what, told.answer, told.by or "nobody: its time was up", told.digest))
    for at, asked, said in report.asked:
        what = f"at the door: {asked.method} {asked.host}{asked.path}"
        answer, by = ("nobody decided", "") if said is None else (said.answer, said.by or "nobody: its time was up")
        made.append(Decision(at, what, answer, by, asked.digest))
    return sorted(made, key=lambda each: each.at)
