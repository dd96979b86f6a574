"""Events as sentences for people: a line of the board, an entry of a report's timeline, or both. No I/O."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hotdesk.brief.names import put_domain_first
from hotdesk.dataclass import dataclass
from hotdesk.event import (
    Alarm,
    Amended,
    Answered,
    Asked,
    Certified,
    Decided,
    Event,
    Exchange,
    Forgotten,
    HandedBack,
    JobBegun,
    JobEnded,
    JobPaused,
    Kept,
    MemoryDropped,
    MemoryKept,
    MemoryOffered,
    Pending,
    Planned,
    Preflight,
    Proven,
    Resumed,
    Revoked,
    SentBack,
    StepBegun,
    StepEnded,
    TookOver,
    Verified,
)
from hotdesk.job.format import format_count, format_duration, format_size
from hotdesk.job.people.approval_text import KINDS

Tone: TypeAlias = Literal["good", "bad", "wait", "plain"]
BoardLine: TypeAlias = tuple[str, str, str]
"""Style, first word and text of a line of the board."""
_TimelineEntry: TypeAlias = tuple[str, str, Tone]
"""Title, text and tone of an entry of the timeline."""
_MAX_TARGET_CHARACTERS = 200
ANSWERS: dict[str, Tone] = {"approved": "good", "answered": "good", "refused": "bad", "expired": "bad"}
ENDS: dict[str, Tone] = {"done": "good", "interrupted": "wait"}
WAITING = {
    "plan": "the plan",
    "step": "a step",
    "amendment": "a change of the plan",
    "repeat": "an act with an unknown outcome",
    "question": "a question",
    "pilot": "the pilot's results",
    "cohort": "one request that many items make",
    "review": "the review of an item's result",
}
"""What a person has to decide, by the kind of a `Pending` event."""


@dataclass(frozen=True, slots=True)
class EventText:
    """The text of one event. A field is `None` if that view does not show the event."""

    line: BoardLine | None = None
    entry: _TimelineEntry | None = None


_UNMENTIONED = EventText()


def describe(event: Event) -> EventText:
    match event:
        case Pending() | Decided() | Asked() | Answered() | TookOver() | HandedBack():
            return _describe_people(event)
        case Verified() | SentBack() | Certified() | Kept():
            return _describe_result(event)
        case Exchange() | Alarm() | Revoked() | Proven():
            return EventText(_describe_desk(event))
    return _describe_job(event)


def _describe_job(event: Event) -> EventText:
    match event:
        case JobBegun():
            line = ("strong", "", f"job {event.job}: {' '.join(event.goal.split())}")
            return EventText(line, ("The job started", f"started by {event.by}" if event.by else "", "plain"))
        case Planned(findings=()):
            steps = format_count(len(event.steps), "step")
            line = ("", "plan", f"{steps}: {', '.join(event.steps)}")
            return EventText(line, (f"A plan of {steps}", f"digest {event.digest[:16]}", "plain"))
        case Planned():
            findings = "; ".join(event.findings)
            line = ("warn", "plan", f"sent back to the planner in round {event.round}: {findings}")
            return EventText(line, ("The plan was sent back to the planner", findings, "bad"))
        case Amended():
            line = ("warn", "plan", f"amended: {', '.join(event.steps)}")
            return EventText(line, ("The plan was amended after approval", f"digest {event.digest[:16]}", "plain"))
        case Preflight(failed=()):
            count = len(event.held)
            line = ("", "tried", f"{format_count(count, 'requirement')} of the plan met")
            return EventText(line, ("The requirements of the plan were checked", f"{count} of {count} met", "good"))
        case Preflight():
            failed = "; ".join(event.failed)
            met = format_count(len(event.held), "requirement")
            line = ("bad", "tried", f"{met} of the plan met; not met: {failed}")
            return EventText(line, ("A requirement of the plan is not met", failed, "bad"))
        case StepBegun(step="desk"):
            return EventText(("dim", "desk", f"{event.desk}, {event.what}"), ("A desk was opened", event.what, "plain"))
        case StepEnded(step="desk", outcome="done"):
            return EventText(("dim", "burnt", event.desk))
        case JobPaused():
            line = ("warn", "paused", f"{event.why}: hotdesk resume {event.job}")
            return EventText(line, ("The job paused and can be resumed", event.why, "wait"))
        case Resumed():
            acts = ", ".join(event.unknown)
            end, text = f"; the outcome of {acts} is unknown", f"; the outcome of {acts} is unknown"
            where = f" at step {event.step}" if event.step else ""
            line = ("", "resumed", f"by {event.by}{where}{end if event.unknown else ''}")
            return EventText(line, ("The job was resumed", f"by {event.by}{text if event.unknown else ''}", "plain"))
        case JobEnded():
            entry: _TimelineEntry = (f"The job ended: {event.outcome}", event.why, ENDS.get(event.outcome, "bad"))
            return EventText(("warn", "", "interrupted") if event.outcome == "interrupted" else None, entry)
        case Forgotten():
            why = f": {event.why}" if event.why else ""
            return EventText(entry=("The job's stored data was deleted", f"by {event.by}{why}", "plain"))
        case MemoryOffered(items=items) if items:
            text = f"{format_count(len(items), 'item')} of the memory {event.memory}, stored by earlier jobs"
            return EventText(("dim", "memory", text), ("The job received memory of earlier jobs", text, "plain"))
        case MemoryKept():
            text = f"{event.kind} {event.name} in the memory {event.memory}"
            line = ("good", "memory", f"stored {text}, sha256 {event.sha256}")
            return EventText(
                line, ("The job stored memory for later jobs", f"{text}, {format_size(event.size)}", "plain")
            )
        case MemoryDropped():
            text = f"{event.name} of the memory {event.memory}: {event.why}"
            line = ("warn", "memory", f"left out {text}")
            return EventText(line, ("An item of the memory was left out", text, "bad"))
    return _UNMENTIONED


def _describe_people(event: Pending | Decided | Asked | Answered | TookOver | HandedBack) -> EventText:
    match event:
        case Pending():
            what = f"step {event.step}" if event.kind == "step" else f"{WAITING[event.kind]}{_of_step(event.step)}"
            title = f"Approval requested: {KINDS[event.kind]}"
            line = ("warn", "waits", f"{what}: {answer_commands(event)}")
            return EventText(line, (title, f"digest {event.digest[:16]}", "wait"))
        case Decided():
            by = f"by {event.by}" if event.by else "no answer in time"
            text = f"{by}; digest {event.digest[:16]}"
            return EventText(_answer_line(event), (f"The request was {event.answer}", text, ANSWERS[event.answer]))
        case Asked():
            line = ("warn", "asks", f"{describe_target(event)}: hotdesk approve {event.id} | hotdesk refuse {event.id}")
            return EventText(
                line, ("A desk requested access at the door", f"{event.method} {event.host}{event.path}", "wait")
            )
        case Answered():
            by = f"by {event.by}" if event.by else "no answer in time"
            return EventText(
                _answer_line(event), (f"The request at the door was {event.answer}", by, ANSWERS[event.answer])
            )
        case TookOver():
            line = ("warn", "control", f"{event.by} took over desk {event.desk}")
            return EventText(line, ("A person took control", event.by, "wait"))
        case HandedBack():
            line = ("", "control", f"handed back after {format_duration(event.seconds)} {event.note}".rstrip())
            note = f"; {event.note}" if event.note else ""
            text = f"{event.seconds:.0f} s, {event.clicks} clicks, {event.keys} keys{note}"
            return EventText(line, ("Control was handed back", text, "plain"))


def _describe_result(event: Verified | SentBack | Certified | Kept) -> EventText:
    match event:
        case Verified():
            tone: Tone = "good" if event.outcome == "passed" else "bad"
            findings, title = "; ".join(event.findings), f"{event.path} was checked and {event.outcome}"
            line: BoardLine = (tone, event.outcome, f"{event.path}: {findings}")
            return EventText(line, (title, f"by {event.check}, in a clean desk: {findings}", tone))
        case SentBack():
            return EventText(("warn", "back", f"{event.path} sent back to step {event.step} to correct its faults"))
        case Certified():
            line = ("good", "signed", f"the certificate of {event.path}, sha256 {event.certificate}")
            return EventText(line, (f"{event.path} was certified", f"certificate {event.certificate[:16]}", "good"))
        case Kept():
            line = ("good", "kept", f"{event.path}, sha256 {event.sha256}")
            return EventText(
                line, (f"{event.path} was stored", f"version {event.version}, {format_size(event.size)}", "good")
            )


def _describe_desk(event: Exchange | Alarm | Revoked | Proven) -> BoardLine | None:
    match event:
        case Exchange(verdict="ask") if event.step and event.refused:
            return "warn", "refused", f"{describe_target(event)}: not approved"
        case Exchange() if event.step and event.refused:
            return "warn", "refused", f"{describe_target(event)}: {event.rule}"
        case Alarm():
            return "bad", "ALARM", describe_alarm(event)
        case Revoked():
            return "warn", "revoked", f"{event.grant}: {event.why}"
        case Proven() if event.failed:
            return "bad", "door", f"self-test failed: {'; '.join(event.failed)}"
    return None


def describe_alarm(alarm: Alarm) -> str:
    """Describe an alarm in one sentence, followed by its note."""
    if alarm.what == "placeholder":
        what = f"the door refused a request to {alarm.host} that had the placeholder of the secret {alarm.secret}"
    elif alarm.what == "leak":
        what = f"{alarm.host} returned the secret {alarm.secret}, so its grant was revoked"
    else:
        what = f"the door refused a request to {alarm.host} that had a credential of the desk's own"
    return f"{what}: {alarm.note}" if alarm.note else what


def _answer_line(event: Decided | Answered) -> BoardLine:
    return "", event.answer, f"{event.id}{f' by {event.by}' if event.by else ''}"


def answer_commands(pending: Pending) -> str:
    if pending.kind == "question":
        return f"hotdesk answer {pending.id} TEXT"
    return f"hotdesk approve {pending.id} | hotdesk refuse {pending.id}"


def describe_target(event: Exchange | Asked) -> str:
    return put_domain_first(event.host, f"{event.method} {event.host}{event.path}")[:_MAX_TARGET_CHARACTERS]


def _of_step(step: str) -> str:
    return f" of step {step}" if step else ""
