"""One line for each event a person should hear of. Others give none: they are counted, and shown in the live area."""

from __future__ import annotations

from collections.abc import Iterator

from hotdesk.brief.names import domain_first
from hotdesk.cli.board.state import State
from hotdesk.event import (
    Alarm,
    Amended,
    Answered,
    Asked,
    Certified,
    Decided,
    DeskEvent,
    Event,
    Exchange,
    HandedBack,
    JobBegun,
    JobEnded,
    JobPaused,
    Kept,
    Pending,
    Planned,
    Preflight,
    Proven,
    Resumed,
    Revoked,
    RolledBack,
    SentBack,
    StepBegun,
    StepEnded,
    TookOver,
    Verified,
)
from hotdesk.job.format import lasting, plural
from hotdesk.plan import OURS

LONGEST = 2000
"""Characters of a line: a goal may be a page."""
SAID = 300
"""Characters of a worker's words."""
TARGET = 200
"""Characters of where a desk wants to go."""
KINDS = {
    "plan": "the plan",
    "step": "a step",
    "amendment": "another plan",
    "repeat": "an act whose outcome nobody knows",
    "question": "a question",
}
"""What a person is asked about."""


def say(event: Event, state: State) -> Iterator[tuple[str, str]]:
    """Give the lines for an event, each with its style; the state has taken it in already."""
    told = say_desk(event) if isinstance(event, DeskEvent) else say_job(event, state)
    return ((style, f"{word:8} {text}"[:LONGEST] if word else text[:LONGEST]) for style, word, text in told)


def say_job(event: Event, state: State) -> Iterator[tuple[str, str, str]]:
    """Tell of a job: style, first word, the rest."""
    match event:
        case JobBegun():
            yield "strong", "", f"job {event.job}: {' '.join(event.goal.split())}"
            if event.brain:
                yield "", "brain", event.brain
        case Planned() if event.findings:
            yield "warn", "plan", f"round {event.round} goes back: {'; '.join(event.findings)}"
        case Planned():
            yield "", "plan", f"{plural(len(event.steps), 'step')}: {', '.join(event.steps)}"
        case Preflight():
            failed = f"; failed: {'; '.join(event.failed)}" if event.failed else ""
            yield ("bad" if failed else ""), "tried", f"{len(event.held)} of what the plan needs is there{failed}"
        case Pending():
            what = f"step {event.step}" if event.kind == "step" else f"{KINDS[event.kind]}{of(event.step)}"
            yield "warn", "waits", f"{what}: {how_to_answer(event)}"
        case Decided():
            yield "", event.answer, f"{event.id}{f' by {event.by}' if event.by else ''}"
        case Amended():
            yield "warn", "plan", f"is another now: {', '.join(event.steps)}"
        case StepBegun() | StepEnded() | RolledBack():
            yield from say_step(event, state)
        case Verified():
            style = "good" if event.outcome == "passed" else "bad"
            yield style, event.outcome, f"{event.path}: {'; '.join(event.findings)}"
        case SentBack():
            yield "warn", "back", f"to step {event.step}, which is told what {event.path} lacks"
        case Certified():
            yield "good", "signed", f"the certificate of {event.path}, sha256 {event.certificate}"
        case Kept():
            yield "good", "kept", f"{event.path}, sha256 {event.sha256}"
        case JobPaused():
            yield "warn", "paused", f"{event.why}: hotdesk resume {event.job}"
        case Resumed():
            unknown = f"; what came of {', '.join(event.unknown)} nobody knows" if event.unknown else ""
            yield "", "resumed", f"by {event.by}{of(event.step)}{unknown}"
        case JobEnded(outcome="interrupted"):
            yield "warn", "", "interrupted"


def say_step(event: StepBegun | StepEnded | RolledBack, state: State) -> Iterator[tuple[str, str, str]]:
    """Tell of a step."""
    match event:
        case StepBegun(step="desk"):
            yield "dim", "desk", f"{event.desk}, {event.what}"
        case StepBegun():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            yield "", event.step, f"{event.what}{again}"
        case StepEnded(step="desk", outcome="done"):
            yield "dim", "burnt", event.desk
        case StepEnded(outcome="failed"):
            said = state.paper(event.paper)[:SAID] if event.paper else ""
            yield "bad", event.step, f"failed: {event.note}{f', and says: {said}' if said else ''}"
        case StepEnded() if event.step not in OURS:
            step = state.course.steps[event.step]
            yield "good", "done", f"{event.step}, {lasting(step.seconds)}, {plural(step.acts, 'act')}"
        case RolledBack():
            why = f": {event.why}" if event.why else ""
            yield "warn", "back", f"as it was before {event.step}, attempt {event.attempt}{why}"


def say_desk(event: DeskEvent) -> Iterator[tuple[str, str, str]]:
    """Tell of a desk: style, first word, the rest."""
    match event:
        case Exchange(verdict="deny" | "broken") if event.step:
            yield "warn", "refused", f"{target(event)}: {event.rule}"
        case Alarm():
            yield "bad", "ALARM", f"{event.what} of {event.secret} at {event.host} {event.note}"
        case Asked():
            yield "warn", "asks", f"{target(event)}: hotdesk approve {event.id} | hotdesk refuse {event.id}"
        case Answered():
            yield "", event.answer, f"{event.id}{f' by {event.by}' if event.by else ''}"
        case Revoked():
            yield "warn", "revoked", f"{event.grant}: {event.why}"
        case Proven() if event.failed:
            yield "bad", "door", f"does not hold: {'; '.join(event.failed)}"
        case TookOver():
            yield "warn", "wheel", f"{event.by} took over {event.desk}"
        case HandedBack():
            yield "", "wheel", f"handed back after {lasting(event.seconds)} {event.note}".rstrip()


def how_to_answer(pending: Pending) -> str:
    """Give the commands by which a person answers."""
    if pending.kind == "question":
        return f"hotdesk answer {pending.id} TEXT"
    return f"hotdesk approve {pending.id} | hotdesk refuse {pending.id}"


def target(event: Exchange | Asked) -> str:
    """Say where a desk wants to go."""
    return domain_first(event.host, f"{event.method} {event.host}{event.path}")[:TARGET]


def of(step: str) -> str:
    """Say of which step."""
    return f" of step {step}" if step else ""
