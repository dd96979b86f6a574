"""Gathers what a report tells from a job's events, those of its desks, and its papers."""

from __future__ import annotations

import base64
import binascii
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hotdesk.drive.journal import read
from hotdesk.event import (
    Alarm,
    Answered,
    Asked,
    Certified,
    Event,
    Exchange,
    HandedBack,
    Kept,
    StepBegun,
    StepEnded,
    TookOver,
    Verified,
)
from hotdesk.job.people.card_text import KINDS
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import JobSummary
from hotdesk.job.report.facts import Delivered, JobReport, Looked, ReportedDecision, ToolUse
from hotdesk.job.report.paper_text import PaperReader
from hotdesk.job.report.pictures import Album, spread
from hotdesk.job.report.story import Timeline

PAGES = 4
"""Pages shown of one file."""


@dataclass(slots=True)
class Gathering:
    """Takes a job's events in, in their order."""

    report: JobReport
    story: Timeline
    album: Album = field(default_factory=Album)
    checking: int = 0
    """When the check began that is under way."""

    def take(self, event: Event, at: int) -> None:
        """Take one event in."""
        self.story.take(event, at)
        match event:
            case StepBegun(step="verify"):
                self.checking = at
            case StepEnded(step="verify") if self.checking:
                self.report.checking += (at - self.checking) / 1000
                self.checking = 0
            case Verified():
                looks = self.delivered(event.path).looks
                looks[event.check] = Looked(event)
            case Kept():
                self.delivered(event.path).kept = event
            case Certified():
                self.delivered(event.path).certified = event

    def delivered(self, path: str) -> Delivered:
        """Give what is known of a deliverable."""
        return self.report.delivered.setdefault(path, Delivered(path))

    def finish(self) -> None:
        """Open what is shown of papers: verdicts, pages, screens."""
        for item in self.report.delivered.values():
            for look in item.looks.values():
                look.seen = self.story.reading.seen(look.event.paper)
                for picture in (look.seen.pictures if look.seen else ())[:PAGES]:
                    if (shown := self.album.page(picture.png)) is not None:
                        look.pages.append(shown)
        self.album.unread += self.story.unread
        taken = [act for act in self.story.acts.values() if act.has_picture]
        chosen = spread(len(taken), self.album.screens)
        for place, act in enumerate(taken):
            if place in chosen:
                self.show_screen(act)
        self.report.missing = self.story.reading.missing
        self.report.left_out, self.report.unread = self.album.left_out + len(taken) - len(chosen), self.album.unread

    def show_screen(self, act: ToolUse) -> None:
        """Have the picture of an act shown."""
        with suppress(binascii.Error, ValueError):
            data = base64.b64decode(str(self.story.reading.told(act.paper).get("image", "")), validate=True)
            act.picture = self.album.screen(data)


def gather(journal: Path, jobs: Path, job: str) -> JobReport:
    """Gather all that is known of one job now."""
    now = int(time.time() * 1000)
    tale = JobSummary(job)
    story = Timeline(PaperReader(jobs, job))
    gathering = Gathering(JobReport(tale, ("unknown", ""), now, timeline=story.timeline), story)  # type: ignore[arg-type]
    for row in read(journal, job):
        try:
            event = row.event()
        except (ValueError, RecursionError):
            tale.strange += 1
            continue
        tale.take(event, row.at)
        gathering.take(event, row.at)
    report = gathering.report
    gather_desks(report, story, journal)
    report.state = tale.state(is_held(jobs / job), now)
    report.plan = story.reading.plan(tale.plan_paper) if tale.plan_paper else []
    report.decisions = decisions(report)
    report.timeline.sort(key=lambda each: each.at)
    gathering.finish()
    return report


def gather_desks(report: JobReport, story: Timeline, journal: Path) -> None:
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
            story.take(event, row.at)
    for number, (at, each) in asked.items():
        when, said = answered.get(number, (at, None))
        report.asked.append((when, each, said))


def decisions(report: JobReport) -> list[ReportedDecision]:
    """List what people or policies were asked for, in the plan and at the door, and what came of it."""
    waiting, made = report.tale.waiting, []
    for number, (kind, step) in waiting.asked.items():
        told, what = waiting.decided.get(number), f"{KINDS[kind]}{f' in step {step}' if step else ''}"
        at = waiting.decided_at.get(number, 0)
        if told is None:
            made.append(ReportedDecision(at, what, "nobody decided", "", ""))
        else:
            made.append(ReportedDecision(at, what, told.answer, told.by or "nobody: its time was up", told.digest))
    for at, asked, said in report.asked:
        what = f"at the door: {asked.method} {asked.host}{asked.path}"
        answer, by = ("nobody decided", "") if said is None else (said.answer, said.by or "nobody: its time was up")
        made.append(ReportedDecision(at, what, answer, by, asked.digest))
    return sorted(made, key=lambda each: each.at)
