"""Moves events from the journal's outbox into its chains (`desk/keeper/outbox.py` explains why)."""

from __future__ import annotations

import json
from pathlib import Path

from hotdesk.desk.keeper.outbox import is_empty, take_entries
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Burnt, Event, from_json, get_chain

_ACTORS = ("keeper", "owner")


def take_in(journal: Journal, folder: Path) -> None:
    """Add and commit the waiting events. A crash between commit and removal adds none twice."""
    if is_empty(folder):
        return
    with take_entries(folder) as lines:
        for line in lines:
            match line:
                case {"at": int(at), "actor": str(actor), "event": str(name), "data": dict(data)} if actor in _ACTORS:
                    add(journal, at, actor, name, data)
        journal.commit()


def add(journal: Journal, at: int, actor: str, name: str, data: dict[str, object]) -> None:
    """Add one event, unless it is already there. One that this version does not know is left out."""
    try:
        event = from_json(name, json.dumps(data))
    except ValueError:
        return
    if not is_known(journal, event):
        journal.add(get_chain(event), actor, event, at)


def is_known(journal: Journal, event: Event) -> bool:
    """Return whether the journal has an event. A desk is opened and burnt once, and each other chain has one event."""
    return journal.has(get_chain(event), Burnt if isinstance(event, Burnt) else None)


def take_in_at(lib: Path) -> None:
    """Move the outbox of a state directory into its journal, before the journal is read."""
    folder = lib / "keys"
    if is_empty(folder):
        return
    journal = Journal(folder / FILE, load_signer(folder))
    try:
        take_in(journal, folder)
    finally:
        journal.close()
