"""Features that providers refused, remembered by model: in this process, and in a small file for later ones."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Annotated

from hotdesk.dataclass import dataclass
from hotdesk.strict import Length, Range, StrictError, parse_json, read

FILE = "learned.json"
MAX_BYTES = 64 << 10
MAX_MODELS = 100
KEEP_SECONDS = 7 * 86400
"""Seconds until a refused feature is tried again: an account may be verified, a model may gain features."""
Value = str | int | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class LearnedEntry:
    """The learned facts about one model, and their time."""

    change: Annotated[dict[str, Value], Length(20)]
    at: Annotated[int, Range(0)]


@dataclass
class LearnedLimits:
    """Facts about models beyond the table. Without a folder they last as long as the process."""

    folder: Path | None = None
    entries: dict[str, LearnedEntry] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.folder is not None:
            self.entries |= _load(self.folder / FILE)

    def find(self, name: str) -> Mapping[str, Value]:
        entry = self.entries.get(name)
        return entry.change if entry is not None and _is_fresh(entry) else {}

    def add(self, name: str, change: Mapping[str, object]) -> None:
        """Store a learned fact; if the file cannot be written, that is ignored."""
        as_json = {key: list(value) if isinstance(value, tuple) else value for key, value in change.items()}
        before = self.find(name)
        self.entries[name] = read(LearnedEntry, {"change": {**before, **as_json}, "at": int(time.time())})
        newest = sorted(self.entries.items(), key=lambda item: -item[1].at)[:MAX_MODELS]
        self.entries = dict(newest)
        if self.folder is not None:
            _save(self.folder, self.entries)


def _is_fresh(entry: LearnedEntry) -> bool:
    return 0 <= time.time() - entry.at <= KEEP_SECONDS


def _load(file: Path) -> dict[str, LearnedEntry]:
    """Read the file; return no entries if it cannot be read."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)
        entries = read(dict[str, LearnedEntry], parse_json(data.decode()) if len(data) <= MAX_BYTES else {})
    except (OSError, ValueError, StrictError):
        return {}
    return {name: entry for name, entry in entries.items() if _is_fresh(entry)}


def _save(folder: Path, entries: Mapping[str, LearnedEntry]) -> None:
    """Replace the file atomically: another process reads the old one or the new one."""
    text = json.dumps({name: {"change": entry.change, "at": entry.at} for name, entry in entries.items()}, indent=1)
    if len(text) > MAX_BYTES:
        return
    beside = folder / f"{FILE}.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_text(text)
        beside.replace(folder / FILE)
    except OSError:
        beside.unlink(missing_ok=True)
