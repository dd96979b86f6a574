"""A job's notes for `recall`: summaries, notes and observations from its events. Their texts are read on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hotdesk.brain.notes import NoteEntry, Notes
from hotdesk.brain.own_tools import REMEMBER
from hotdesk.drive.journal import read
from hotdesk.event import Acted, Observed, Summed
from hotdesk.job.record.papers import Papers


def read_notes(journal: Path, job: str, papers: Papers) -> Notes:
    """Return what a job can recall so far."""
    return Notes(iterate_entries(journal, job), lambda paper: read_words(papers.read_text(paper)))


def iterate_entries(journal: Path, job: str) -> Iterator[NoteEntry]:
    tools: dict[int, str] = {}
    for row in read(journal, job, names=(Acted.__name__, Observed.__name__, Summed.__name__)):
        match event := row.read_event():
            case Summed():
                yield NoteEntry("summary", event.step, paper=event.paper)
            case Acted(tool=tool) if tool == REMEMBER.name:
                yield NoteEntry("note", event.step, paper=event.paper)
            case Acted():
                tools[event.act] = event.tool
            case Observed() if event.act in tools:
                yield NoteEntry("observation", event.step, event.act, tools.pop(event.act), paper=event.paper)


def read_words(paper: str) -> str:
    """Return the text in a paper: a summary, an observation or a note."""
    try:
        data = json.loads(paper)
    except ValueError:
        return paper
    match data:
        case {"text": str(text)} | {"arguments": {"text": str(text)}}:
            return text
    return paper
