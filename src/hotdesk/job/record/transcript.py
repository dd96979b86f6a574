"""The transcript of a job from its papers, for people. Every line is escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from hotdesk.drive.chain import Row
from hotdesk.errors import HotdeskError, make_printable
from hotdesk.event import Acted, Amended, Decided, Event, Observed, Pending, Planned, Summed, Thought, VisionAsked
from hotdesk.job.record.papers import Papers

IMAGE = re.compile(r"[A-Za-z0-9+/_\r\n-]{1000,}+={0,2}")
"""Text this long without other characters is encoded binary data."""
UNTOLD = ("native",)
"""Fields that repeat the same content in a provider's own format."""
MAX_TEXT_CHARS = 4000
"""Maximum characters shown of one text."""


def format_transcript(rows: Iterator[Row], papers: Papers) -> Iterator[str]:
    """Yield the transcript's lines in the order of the job's events."""
    for row in rows:
        try:
            event = row.read_event()
        except (ValueError, RecursionError):
            continue
        if (named := _describe_paper(event)) is not None:
            text, paper = named
            yield make_printable(f"── {text}")
            yield from (f"   {line}" for line in read_paper_lines(papers, paper))


def _describe_paper(event: Event) -> tuple[str, str] | None:
    """Return a description of an event's paper and the paper's name, or `None` for an event without one."""
    match event:
        case Thought():
            use = ", not used" if event.is_unused else ""
            return f"{event.step or 'planning'}, turn {event.turn}: {event.model}{use}", event.paper
        case VisionAsked():
            return f"{event.step}, a picture: {event.model}, {event.outcome} after {event.ms} ms", event.paper
        case Acted():
            return f"{event.step}, act {event.act}: {event.tool} with", event.paper
        case Observed():
            return f"{event.step}, act {event.act}: {event.outcome} after {event.ms} ms", event.paper
        case Planned():
            return f"plan {event.digest[:16]}, round {event.round}", event.paper
        case Amended():
            return f"plan {event.digest[:16]}, amended", event.paper
        case Summed():
            return f"{event.step}: summary for the next steps", event.paper
        case Pending():
            return f"{event.id}: what the person was shown, a request of kind {event.kind}", event.paper
        case Decided() if event.paper:
            return f"{event.id}: {event.answer} by {event.by}", event.paper
    return None


def read_paper_lines(papers: Papers, name: str) -> list[str]:
    """Return a paper's text as lines, or the reason why it cannot be read."""
    try:
        data = papers.read(name)
    except HotdeskError as e:
        return [make_printable(str(e))]
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return [f"({len(data)} bytes)"]
    try:
        return list(lay_out(json.loads(text)))
    except (ValueError, RecursionError):
        return list(iterate_lines(text))


def lay_out(value: Any, name: str = "") -> Iterator[str]:
    """Format JSON data with one field per line, without empty fields."""
    before = f"{make_printable(name)}: " if name else ""
    match value:
        case _ if value is False or (not value and value != 0):
            return
        case dict():
            if name:
                yield before.rstrip()
            for key, part in ((key, part) for key, part in value.items() if key not in UNTOLD):
                yield from (f"  {line}" if name else line for line in lay_out(part, str(key)))
        case list():
            for part in value:
                yield from lay_out(part, name)
        case str():
            first, *rest = iterate_lines(value)
            yield before + first
            yield from (" " * len(before) + line for line in rest)
        case _:
            yield f"{before}{value}"


def iterate_lines(text: str) -> Iterator[str]:
    """Yield a text's lines, escaped: only the size of binary data, and only the beginning of long text."""
    if IMAGE.fullmatch(text.strip()):
        yield f"(an image or other data, {len(text) * 3 // 4} bytes)"
        return
    for line in text[:MAX_TEXT_CHARS].split("\n"):
        yield make_printable(line)
    if len(text) > MAX_TEXT_CHARS:
        yield f"… and {len(text) - MAX_TEXT_CHARS} more characters"
