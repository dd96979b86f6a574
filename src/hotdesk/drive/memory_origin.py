"""The origin of an item in a memory, from the journal."""

from __future__ import annotations

from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.drive.memory import MemoryItem
from hotdesk.event import MemoryKept


@dataclass(frozen=True, slots=True)
class MemoryOrigin:
    """The step that left an item, and the sources its job could have read before."""

    step: str = ""
    """Empty: the journal does not say."""
    sources: tuple[str, ...] = ()


def read_origin(journal: Path, item: MemoryItem) -> MemoryOrigin:
    found = MemoryOrigin()
    for row in read(journal, item.version.job, names=(MemoryKept.__name__,)) if journal.exists() else ():
        event = row.read_event()
        if isinstance(event, MemoryKept) and (event.name, event.sha256) == (item.name, item.version.sha256):
            found = MemoryOrigin(event.step, event.sources)
    return found
