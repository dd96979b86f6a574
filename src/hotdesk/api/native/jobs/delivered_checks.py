"""The checks a file passed when it was delivered over MCP, from the journal."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.drive.catalog import Version
from hotdesk.drive.journal import read
from hotdesk.event import DriveChanged


@dataclass(slots=True)
class Checked:
    """The checks of one tenant's files according to its journal, which is read once and then incrementally."""

    journal: Path
    passed: dict[tuple[str, int, str], tuple[str, ...]] = field(default_factory=dict)
    """Names of checks, by a file's name, version and SHA-256."""
    last: int = 0
    reading: anyio.Lock = field(default_factory=anyio.Lock)

    async def of(self, versions: Iterable[Version]) -> list[tuple[str, ...]]:
        async with self.reading:
            await anyio.to_thread.run_sync(self.read_on)
        return [self.passed.get((each.name, each.number, each.sha256), ()) for each in versions]

    def read_on(self) -> None:
        for row in read(self.journal, names=[DriveChanged.__name__], after=self.last) if self.journal.exists() else ():
            self.last = row.id
            with suppress(ValueError, RecursionError):
                match row.read_event():
                    case DriveChanged(what="put", checks=checks) as event if checks:
                        self.passed[event.name, event.version, event.sha256] = checks
                    case DriveChanged(what="removed") as event:
                        self.passed.pop((event.name, event.version, event.sha256), None)
