"""Recordings of an example: a model's replies, and a note of how they were made.

A recording is `recorded/NAME.jsonl` in an example's folder, as `hotdesk work --record` writes it. Its note is
`NAME.json` and says who gave the replies, for which inputs, and when:

    {"answered_by": "by hand through a loopback provider", "model": "anthropic:MODEL", "seed": 5150, "count": 40,
     "date": "2026-11-17", "commit": "1a2b3c4d"}
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from hotdesk.errors import BriefError, make_printable
from hotdesk.strict import Length, Range, StrictError, parse_json, read

FOLDER = "recorded"
SUFFIX = ".jsonl"
_MAX_NOTE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RecordingNote:
    """How a recording was made."""

    answered_by: Annotated[str, Length(300, 1)]
    """Who gave the replies: `the model itself`, `by hand through a loopback provider`."""
    model: Annotated[str, Length(300, 1)]
    """The name of the model that was called."""
    seed: Annotated[int, Range(0)]
    count: Annotated[int, Range(0)]
    """How many inputs were generated; 0 where the example has no such number."""
    date: Annotated[str, re.compile(r"\d{4}-\d\d-\d\d")]
    commit: Annotated[str, re.compile(r"[0-9a-f]{7,40}|")] = ""
    """The commit of hotdesk that made the requests; empty if unknown."""

    def describe(self) -> str:
        """Return who recorded what, for the person who watches a replay."""
        commit = f" at commit {self.commit[:12]}" if self.commit else ""
        author = self.answered_by.removeprefix("by ")
        return make_printable(f"recorded on {self.date}{commit}, as {self.model}, answered by {author}")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording and its note."""

    file: Path
    note: RecordingNote


def find_recording(place: Path) -> Recording:
    """Read a recording, or the first in a folder; raise `BriefError` if there is none, or no note."""
    files = [place] if place.suffix == SUFFIX else sorted(place.glob(f"*{SUFFIX}"))
    if not files or not files[0].is_file():
        raise BriefError(f"There is no recording at {place}. Make one with --model and --record.")
    return Recording(files[0].absolute(), read_note(files[0]))


def read_note(file: Path) -> RecordingNote:
    """Read how a recording was made."""
    note = file.with_suffix(".json")
    try:
        with note.open("rb") as source:
            return read(RecordingNote, parse_json(source.read(_MAX_NOTE_BYTES)))
    except OSError as e:
        raise BriefError(f"Cannot read {note}: {e.strerror}. It must say how {file.name} was made.") from e
    except StrictError as e:
        raise BriefError(f"{note} is malformed: {e}. See examples/recording.py for its form.") from None


def write_note(file: Path, answered_by: str, model: str, seed: int, count: int = 0) -> None:
    """Write the note of a recording that is about to be made."""
    today = datetime.now(UTC).date().isoformat()
    note = RecordingNote(answered_by, model, seed, count, today, find_commit())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_suffix(".json").write_text(json.dumps(asdict(note), indent=1) + "\n")


def find_commit() -> str:
    """Return the commit of this checkout, or an empty text outside a checkout."""
    argv = ["git", "-c", "safe.directory=*", "rev-parse", "HEAD"]  # root may run this in a user's checkout
    done = subprocess.run(argv, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
