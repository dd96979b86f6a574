"""Collects the facts of a report from a job's events, its desks' events and its papers."""

from __future__ import annotations

import base64
import binascii
import time
from contextlib import suppress
from pathlib import Path

from hotdesk.drive.journal import read
from hotdesk.event import Alarm, Answered, Asked, Decided, Exchange, HandedBack, TookOver
from hotdesk.job.people.approval_text import KINDS
from hotdesk.job.record.desk_walls import read_walls
from hotdesk.job.record.lock import is_held
from hotdesk.job.record.summary import DeliverableRecord, JobSummary, select_latest
from hotdesk.job.report.facts import Delivered, JobReport, Looked, ReportedDecision, ToolUse
from hotdesk.job.report.paper_text import PaperReader
from hotdesk.job.report.pictures import Album, spread
from hotdesk.job.report.story import Timeline

MAX_PAGES = 4
"""Maximum pages shown of one file."""
_DESK_EVENTS = tuple(kind.__name__ for kind in (Exchange, Alarm, Asked, Answered, TookOver, HandedBack))


def gather(journal: Path, jobs: Path, job: str) -> JobReport:
    now = int(time.time() * 1000)
    summary, story = JobSummary(job), Timeline(PaperReader(jobs, job))
    for row in read(journal, job):
        try:
            event = row.read_event()
        except (ValueError, RecursionError):
            summary.strange += 1
            continue
        summary.take(event, row.at)
        story.take(event, row.at)
    report = JobReport(summary, summary.get_state(is_held(jobs / job), now), now, timeline=story.timeline)
    _gather_desks(report, story, journal)
    report.plan = story.reading.read_plan(summary.plan_paper) if summary.plan_paper else []
    report.decisions = _list_decisions(report)
    report.timeline.sort(key=lambda each: each.at)
    _open_papers(report, story)
    return report


def _gather_desks(report: JobReport, story: Timeline, journal: Path) -> None:
    desks = list(report.summary.desks)
    report.walls = read_walls(journal, desks)
    for row in read(journal, desks, names=_DESK_EVENTS) if desks else ():
        with suppress(ValueError, RecursionError):
            event = row.read_event()
            report.door.take(event, row.at)
            story.take(event, row.at)


def _open_papers(report: JobReport, story: Timeline) -> None:
    """Read the papers that the report shows: verdicts, pages and screens."""
    album = Album()
    report.delivered = {
        path: _deliver(each, story, album) for path, each in report.summary.group_deliverables().items()
    }
    album.unread += story.unread
    screens = [act for act in story.acts.values() if act.has_picture]
    chosen = spread(len(screens), album.screens)
    for place, act in enumerate(screens):
        if place in chosen:
            _show_screen(act, story, album)
    report.missing = story.reading.missing
    report.left_out, report.unread = album.left_out + len(screens) - len(chosen), album.unread


def _deliver(record: DeliverableRecord, story: Timeline, album: Album) -> Delivered:
    looks = [Looked(each) for each in select_latest(record.checks)]
    for look in looks:
        look.verdict = story.reading.read_verdict(look.event.paper)
        for picture in (look.verdict.pictures if look.verdict else ())[:MAX_PAGES]:
            if (shown := album.add_page(picture.png)) is not None:
                look.pages.append(shown)
    return Delivered(record.path, looks, record.stored, record.certified)


def _show_screen(act: ToolUse, story: Timeline, album: Album) -> None:
    with suppress(binascii.Error, ValueError):
        data = base64.b64decode(str(story.reading.read_json(act.paper).get("image", "")), validate=True)
        act.picture = album.add_screen(data)


def _list_decisions(report: JobReport) -> list[ReportedDecision]:
    waiting, found = report.summary.waiting, []
    for number, (kind, step) in waiting.history.items():
        decided, what = waiting.decided.get(number), f"{KINDS[kind]}{f' in step {step}' if step else ''}"
        found.append(_decide(waiting.decided_at.get(number, 0), what, decided, decided.digest if decided else ""))
    for at, question, answer in report.door.questions:
        found.append(
            _decide(at, f"at the door: {question.method} {question.host}{question.path}", answer, question.digest)
        )
    return sorted(found, key=lambda each: each.at)


def _decide(at: int, what: str, answer: Decided | Answered | None, digest: str) -> ReportedDecision:
    if answer is None:
        return ReportedDecision(at, what, "not decided", "", digest)
    return ReportedDecision(at, what, answer.answer, answer.by or "no answer in time", digest)
