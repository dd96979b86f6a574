"""Rules that people added to a job beyond its brief, read from the journal; they apply to all desks of the job."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hotdesk.drive.journal import read
from hotdesk.event import Rescoped


def read_allowed_rules(journal: Path, desks: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in read(journal, desks, names=[Rescoped.__name__]):
        event = row.read_event()
        assert isinstance(event, Rescoped)
        for rule in event.allowed:
            found.setdefault(rule, event.by)
    return found
