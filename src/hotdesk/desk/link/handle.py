"""The handle of a desk: operations from outside, such as pause, snapshot and fork."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

from hotdesk.desk.link.link import Link
from hotdesk.desk.seam import Desk, Usage
from hotdesk.errors import BriefError, HostError

_NO_MEMORY = "the programs of a desk without a wall cannot be copied or hibernated; open a desk with the wall gvisor"


class Handle(Protocol):
    """Controls a desk from outside, without the guest's help."""

    async def usage(self) -> Usage:
        """Return the desk's resource usage."""
        ...

    async def pause(self, paused: bool) -> None:
        """Freeze or thaw the desk."""
        ...

    async def suspend(self, suspended: bool) -> None:
        """Freeze all of the desk except its screen, window manager and browser, or thaw it."""
        ...

    async def halt(self, snapshot: str = "") -> None:
        """End every process and keep the files. Raise `BriefError` before that if the snapshot is missing."""
        ...

    async def boot(self, snapshot: str = "") -> Link:
        """Start a halted desk with its current files or those of a snapshot; return the link to its guest."""
        ...

    async def snapshot(self) -> str:
        """Take a snapshot of the desk's files; return its name."""
        ...

    async def forget(self, snapshot: str) -> None:
        """Delete a snapshot."""
        ...

    async def save(self, name: str, snapshot: str) -> None:
        """Save a snapshot as an image."""
        ...

    async def fork(self, snapshot: str, count: int) -> Sequence[Desk]:
        """Open desks that start with the files of a snapshot."""
        ...

    async def fork_live(self, link: Link, count: int) -> Sequence[Desk]:
        """Open desks in which this one's programs continue. Raise `BriefError` first if the wall cannot do this."""
        ...

    async def hibernate(self, link: Link) -> None:
        """Save the desk's memory to disk and end its processes until `pause(False)`. `link` is parked meanwhile."""
        ...

    async def dial(self, port: int, link: Link) -> socket.socket:
        """Return a socket to a server on the desk's loopback, connected or connecting.

        `link` leads to the desk's guest, which connects if no process outside can.
        """
        ...

    async def get_root_link(self) -> Link:
        """Return a link to the guest for root, started if needed. Raise `BriefError` if the desk may not use root."""
        ...


class NoHandle:
    """The handle of a desk without outside control: every operation is refused."""

    async def usage(self) -> Usage:
        """Return zeros: usage is unknown."""
        return Usage(0.0, 0, 0, 0, 0)

    async def pause(self, paused: bool) -> None:
        raise HostError("a desk of the local test runtime cannot be paused")

    async def suspend(self, suspended: bool) -> None:
        raise HostError("a desk of the local test runtime cannot be paused")

    async def halt(self, snapshot: str = "") -> None:
        raise HostError("a desk of the local test runtime cannot be halted")

    async def boot(self, snapshot: str = "") -> Link:
        raise HostError("a desk of the local test runtime cannot be started again")

    async def snapshot(self) -> str:
        raise HostError("a desk of the local test runtime has no snapshots")

    async def forget(self, snapshot: str) -> None:
        raise HostError("a desk of the local test runtime has no snapshots")

    async def save(self, name: str, snapshot: str) -> None:
        raise HostError("a desk of the local test runtime cannot be saved")

    async def fork(self, snapshot: str, count: int) -> Sequence[Desk]:
        raise HostError("a desk of the local test runtime cannot be forked")

    async def fork_live(self, link: Link, count: int) -> Sequence[Desk]:
        raise BriefError(_NO_MEMORY)

    async def hibernate(self, link: Link) -> None:
        raise BriefError(_NO_MEMORY)

    async def dial(self, port: int, link: Link) -> socket.socket:
        raise HostError("a desk of the local test runtime has no ports to connect to")

    async def get_root_link(self) -> Link:
        """Refuse: it would be root of this machine."""
        raise BriefError("programs cannot run as root in a desk of the local test runtime")
