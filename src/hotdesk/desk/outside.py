"""What is done to a desk from outside, by whoever holds it."""

from __future__ import annotations

import socket
from typing import Protocol

from hotdesk.desk.link import Link
from hotdesk.desk.seam import Usage
from hotdesk.errors import BriefError, HostError


class Outside(Protocol):
    """Who holds a desk: nothing of this needs the guest's help."""

    async def usage(self) -> Usage:
        """Say what the desk uses."""
        ...

    async def pause(self, paused: bool) -> None:
        """Stop the desk, or let it go on."""
        ...

    async def dial(self, port: int) -> socket.socket:
        """Give a socket connected, or about to be, to a server on the desk's loopback."""
        ...

    async def root(self) -> Link:
        """Give a link to root's guest, starting it if need be; `BriefError` when the desk may not have root."""
        ...


class Unheld:
    """A desk that nobody holds from outside: nobody counts, and nothing can be done to it."""

    async def usage(self) -> Usage:
        """Say nothing: nobody counts."""
        return Usage(0.0, 0, 0, 0, 0)

    async def pause(self, paused: bool) -> None:
        """Refuse."""
        raise HostError("a desk without a keeper cannot be paused")

    async def dial(self, port: int) -> socket.socket:
        """Refuse."""
        raise HostError("a desk without a keeper cannot be dialled")

    async def root(self) -> Link:
        """Refuse: it would be root of this machine."""
        raise BriefError("a desk without a wall has no root")
