"""A tenant's jobs: its journal, folded once and then updated."""

from __future__ import annotations

import os
import time
from pathlib import Path

import anyio

from hotdesk.config import Config
from hotdesk.drive.journal import read
from hotdesk.event import JobBegun
from hotdesk.job.record.decisions import get_journal_path
from hotdesk.job.record.summary import LINE, JobSummary

_RECENT_NS = 10_000_000_000
"""Nanoseconds within which a commit is surely seen."""
NAMES = tuple(kind.__name__ for kind in LINE)


class JobLedger:
    """Tales of all jobs of one journal, as much as a line needs."""

    def __init__(self, settings: Config) -> None:
        self.journal = get_journal_path(settings)
        self.tales: dict[str, JobSummary] = {}
        self.last = 0
        self.last_stamp: object = None
        self.reading = anyio.Lock()

    async def read_summaries(self) -> dict[str, JobSummary]:
        async with self.reading:
            if (now := stamp(self.journal)) != self.last_stamp:
                await anyio.to_thread.run_sync(self.read_on)
                self.last_stamp = now
        return self.tales

    def read_on(self) -> None:
        if not self.journal.exists():
            return
        for row in read(self.journal, names=NAMES, after=self.last):
            self.last = row.id
            if row.name == JobBegun.__name__ or row.chain in self.tales:
                self.tales.setdefault(row.chain, JobSummary(row.chain)).take_row(row)


def stamp(journal: Path) -> object:
    """Give what is another once something was written, or was lately: its files change before a commit can be seen."""
    found = []
    for path in (journal, journal.with_name(journal.name + "-wal")):
        try:
            status = os.stat(path)
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except FileNotFoundError:
            found.append((0, 0, 0))
    newest = max(each[0] for each in found)
    return object() if time.time_ns() - newest < _RECENT_NS else tuple(found)
