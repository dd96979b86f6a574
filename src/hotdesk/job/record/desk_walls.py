"""The walls of a job's desks as keepers verified them, from the journal."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hotdesk.drive.journal import read
from hotdesk.event import Opened, WallProven, find_proof
from hotdesk.event.desk import KEEPER
from hotdesk.walls import WallProof

_EVENTS = (Opened.__name__, WallProven.__name__)


def read_walls(journal: Path, desks: Collection[str]) -> dict[str, WallProof]:
    """Return what keepers proved about the walls of some desks, without desks that have no such record."""
    found: dict[str, WallProof] = {}
    for row in read(journal, list(desks), names=_EVENTS) if desks else ():
        if row.actor != KEEPER:
            continue
        with suppress(ValueError, RecursionError):
            if (proof := find_proof(row.read_event())) is not None:
                found[row.chain] = proof
    return found
