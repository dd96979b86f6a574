"""Which journals of a server's tenants on this node have new events: by times and sizes of files, none is opened."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import anyio

from hotdesk.cluster.report import INTERVAL_S, MAX_JOURNALS
from hotdesk.desk.keeper.outbox import FILE as OUTBOX
from hotdesk.drive.journal import FILE

_FILES = (FILE, f"{FILE}-wal", OUTBOX)
_TICK_S = 0.1
"""Seconds for which a file that was just written may be written again without another time of change."""
_MIN_INTERVAL_S = 0.02
"""Minimum seconds between two reports."""
_Signature: TypeAlias = tuple[tuple[int, int], ...]


class JournalWatch:
    """What one connection that follows this node's reports was sent about journals."""

    def __init__(self) -> None:
        self.sent: dict[str, _Signature] = {}
        """The state of each tenant's files when its name was sent, the tenant that was sent last at the end."""
        self.urgent: set[str] = set()
        """Tenants whose server must fetch their events at once, because a door waits for that."""
        self.all_due = 0.0
        """Monotonic time from when a report examines all journals, though a door waits."""
        self.pause: anyio.CancelScope | None = None

    def hurry(self, tenant: str) -> None:
        """Name a tenant in a report that is sent now."""
        self.urgent.add(tenant)
        if self.pause is not None:
            self.pause.cancel()

    def list_moved(self, folders: Mapping[str, Path]) -> tuple[str, ...]:
        """Return the tenants whose journals have changed since their names were sent; at the limit, those that have
        waited longest.

        `folders` has the folder of each tenant's keys. While a door waits, all are examined once a second only.
        """
        if self.urgent and time.monotonic() < self.all_due:
            folders = {tenant: folders[tenant] for tenant in self.urgent & folders.keys()}
        else:
            self.all_due = time.monotonic() + INTERVAL_S
        places = {tenant: place for place, tenant in enumerate(self.sent)}
        moved: list[str] = []
        for tenant in sorted(folders, key=lambda each: (each not in self.urgent, places.get(each, -1))):
            signature = _read_signature(folders[tenant])
            if (tenant in self.urgent or self.sent.get(tenant) != signature) and len(moved) < MAX_JOURNALS:
                moved.append(tenant)
                self.sent.pop(tenant, None)
                self.sent[tenant] = signature if _is_settled(signature) else ()
        self.urgent -= {*moved}
        return tuple(moved)

    async def wait_readable(self, sock: socket.socket, seconds: float) -> bool:
        """Wait until the connection has ended, and return True, or until the next report is due."""
        if not self.urgent:
            with anyio.move_on_after(seconds) as self.pause:
                await anyio.wait_readable(sock)
                return True
        with anyio.move_on_after(_MIN_INTERVAL_S):
            await anyio.wait_readable(sock)
            return True
        return False


def _read_signature(folder: Path) -> _Signature:
    found = []
    for name in _FILES:
        try:
            status = (folder / name).stat()
        except OSError:
            found.append((0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def _is_settled(signature: _Signature) -> bool:
    return time.time() - max(changed for changed, _ in signature) / 1e9 > _TICK_S
