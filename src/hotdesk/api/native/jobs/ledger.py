"""A tenant's jobs, computed from its journal, which is read once and then incrementally."""

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
"""Nanoseconds after which a commit is certainly visible."""
NAMES = tuple(kind.__name__ for kind in LINE)


class JobLedger:
    """Summaries of all jobs of one journal, with as much as a list shows."""

    def __init__(self, settings: Config) -> None:
        self.journal = get_journal_path(settings)
        self.summaries: dict[str, JobSummary] = {}
        self.last = 0
        self.last_stamp: object = None
        self.reading = anyio.Lock()

    async def read_summaries(self) -> dict[str, JobSummary]:
        async with self.reading:
            if (now := stamp(self.journal)) != self.last_stamp:
                await anyio.to_thread.run_sync(self.read_on)
                self.last_stamp = now
        return self.summaries

    def read_on(self) -> None:
        if not self.journal.exists():
            return
        for row in read(self.journal, names=NAMES, after=self.last):
            self.last = row.id
            if row.name == JobBegun.__name__ or row.chain in self.summaries:
                self.summaries.setdefault(row.chain, JobSummary(row.chain)).take_row(row)


def stamp(journal: Path) -> object:
    """Return a value that changes with the journal.

    After a write it is different each time for `_RECENT_NS`: the files change before a commit is visible.
    """
    found = []
    for path in (journal, journal.with_name(journal.name + "-wal")):
        try:
            status = os.stat(path)
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        except FileNotFoundError:
            found.append((0, 0, 0))
    newest = max(each[0] for each in found)
    return object() if time.time_ns() - newest < _RECENT_NS else tuple(found)
