"""The origin of an entry in a memory, as the journal has it."""

from __future__ import annotations

from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.journal import read
from hotdesk.drive.memory import MemoryItem
from hotdesk.event import MemoryKept


@dataclass(frozen=True, slots=True)
class MemoryOrigin:
    """The step that left something, and what its job could have read by then."""

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
