"""Formats one line for each event that people should see. Other events only change the live area."""

from __future__ import annotations

from collections.abc import Iterator

from hotdesk.cli.board.state import State
from hotdesk.event import Event, JobBegun, RolledBack, StepBegun, StepEnded
from hotdesk.job.event_text import BoardLine, describe
from hotdesk.job.format import format_count, format_duration
from hotdesk.plan import OURS

_MAX_LINE_CHARACTERS = 2000
"""Maximum characters of a line: a goal may be a page long."""
_MAX_WORDS_CHARACTERS = 300
"""Maximum characters of a worker's words."""


def say(event: Event, state: State) -> Iterator[tuple[str, str]]:
    """Yield styled lines for an event that was already applied to the state."""
    for line in (describe(event).line or _format_step(event, state), _make_brain_line(event)):
        if line is not None:
            style, word, text = line
            yield style, (f"{word:8} {text}" if word else text)[:_MAX_LINE_CHARACTERS]


def _make_brain_line(event: Event) -> BoardLine | None:
    return ("", "brain", event.brain) if isinstance(event, JobBegun) and event.brain else None


def _format_step(event: Event, state: State) -> BoardLine | None:
    match event:
        case StepBegun():
            again = f" (attempt {event.attempt})" if event.attempt > 1 else ""
            return "", event.step, f"{event.what}{again}"
        case StepEnded(outcome="failed"):
            words = state.read_paper(event.paper)[:_MAX_WORDS_CHARACTERS] if event.paper else ""
            return "bad", event.step, f"failed: {event.note}{f'; the worker says: {words}' if words else ''}"
        case StepEnded() if event.step not in OURS:
            step = state.course.steps[event.step]
            return "good", "done", f"{event.step}, {format_duration(step.seconds)}, {format_count(step.acts, 'act')}"
        case RolledBack():
            why = f": {event.why}" if event.why else ""
            return (
                "warn",
                "back",
                f"rolled back to the state before {event.step}, because attempt {event.attempt} failed{why}",
            )
    return None
