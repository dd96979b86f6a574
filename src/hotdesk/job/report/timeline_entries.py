"""Events of a job as moments of its timeline; those that are not worth one are none."""

from __future__ import annotations

from hotdesk.event import (
    Amended,
    Answered,
    Asked,
    Certified,
    Decided,
    Event,
    Forgotten,
    HandedBack,
    JobBegun,
    JobEnded,
    JobPaused,
    Kept,
    Pending,
    Planned,
    Preflight,
    Resumed,
    StepBegun,
    TookOver,
    Verified,
)
from hotdesk.job.format import plural, size
from hotdesk.job.people.card_text import KINDS
from hotdesk.job.report.facts import Moment, Tone

ANSWERS: dict[str, Tone] = {"approved": "good", "answered": "good", "refused": "bad", "expired": "bad"}
ENDS: dict[str, Tone] = {"done": "good", "interrupted": "wait"}


def moment_of(event: Event, at: int) -> Moment | None:
    """Say what happened in a line."""
    return course_of(event, at) or asked_of(event, at) or result_of(event, at)


def course_of(event: Event, at: int) -> Moment | None:
    """Tell how a job goes from its beginning to its end."""
    match event:
        case JobBegun():
            return Moment(at, "The job began", f"started by {event.by}" if event.by else "")
        case Planned(findings=()):
            return Moment(at, f"A plan of {plural(len(event.steps), 'step')}", f"digest {event.digest[:16]}")
        case Planned():
            return Moment(at, "A plan went back", "; ".join(event.findings), "bad")
        case Amended():
            return Moment(at, "The plan was changed, as was approved", f"digest {event.digest[:16]}")
        case Preflight(failed=()):
            return Moment(at, "What the plan needs was tried", f"{len(event.held)} of {len(event.held)} there", "good")
        case Preflight():
            return Moment(at, "Something the plan needs is missing", "; ".join(event.failed), "bad")
        case StepBegun(step="desk"):
            return Moment(at, "A desk was opened", event.what)
        case JobPaused():
            return Moment(at, "The job stopped, and can go on", event.why, "wait")
        case Resumed():
            unknown = f"; nobody knows what came of {', '.join(event.unknown)}" if event.unknown else ""
            return Moment(at, "The job went on", f"by {event.by}{unknown}")
        case JobEnded():
            return Moment(at, f"The job ended: {event.outcome}", event.why, ENDS.get(event.outcome, "bad"))
        case Forgotten():
            return Moment(at, "Its papers were destroyed", f"by {event.by}{f': {event.why}' if event.why else ''}")
    return None


def asked_of(event: Event, at: int) -> Moment | None:
    """Tell what people were asked, and did."""
    match event:
        case Pending():
            return Moment(at, f"An answer was asked for: {KINDS[event.kind]}", f"digest {event.digest[:16]}", "wait")
        case Decided():
            by = f"by {event.by}" if event.by else "nobody did, and its time was up"
            return Moment(at, f"It was {event.answer}", f"{by}; digest {event.digest[:16]}", ANSWERS[event.answer])
        case Asked():
            return Moment(at, "A desk asked at the door", f"{event.method} {event.host}{event.path}", "wait")
        case Answered():
            by = f"by {event.by}" if event.by else "nobody answered in time"
            return Moment(at, f"At the door it was {event.answer}", by, ANSWERS[event.answer])
        case TookOver():
            return Moment(at, "A person took the wheel", event.by, "wait")
        case HandedBack():
            did = f"{event.seconds:.0f} s, {event.clicks} clicks, {event.keys} keys"
            return Moment(at, "The wheel was handed back", f"{did}{f'; {event.note}' if event.note else ''}")
    return None


def result_of(event: Event, at: int) -> Moment | None:
    """Tell what became of deliverables."""
    match event:
        case Verified():
            tone: Tone = "good" if event.outcome == "passed" else "bad"
            text = f"by {event.check}, in a clean desk: {'; '.join(event.findings)}"
            return Moment(at, f"{event.path} was checked and {event.outcome}", text, tone)
        case Kept():
            return Moment(at, f"{event.path} was kept", f"version {event.version}, {size(event.size)}", "good")
        case Certified():
            return Moment(at, f"{event.path} was certified", f"certificate {event.certificate[:16]}", "good")
    return None
