"""Lend a link to another process: its frames go to the guest under channel numbers of ours, and back.

And join two sockets, for a stream that has no frames.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import suppress

import anyio

from hotdesk.desk.link import Link
from hotdesk.desk.sockets import receive, send
from hotdesk.errors import HotdeskError, LinkError
from hotdesk_guest import wire

MOST = 1 << 16
"""Frames that may wait for a borrower."""


class Borrowed:
    """One channel of the borrower, as the link sees it: frames pass through as they are, within their window."""

    def __init__(self, loan: Loan, theirs: int) -> None:
        self.loan = loan
        self.theirs = theirs
        self.window = wire.WINDOW
        self.over = False

    def deliver(self, kind: int, payload: bytes) -> None:
        """Pass a guest's frame on."""
        if kind in (wire.DATA, wire.EVENT):
            self.window -= wire.cost(payload)
            if self.window < 0 or not payload:
                raise LinkError("the guest sent more than it was allowed")
        self.over = kind == wire.REPLY
        self.loan.put(wire.frame(kind, self.theirs, payload))

    def wake(self) -> None:
        """Let the borrower learn that the link ended."""
        self.loan.news.set()


class Loan:
    """What one borrower has open."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.numbers: dict[int, int] = {}
        self.out: deque[bytes] = deque()
        self.news = anyio.Event()
        self.stuck = False

    def put(self, data: bytes) -> None:
        """Queue a frame for the borrower; windows bound bytes, and one that never reads loses its loan."""
        self.stuck = self.stuck or len(self.out) >= MOST
        if not self.stuck:
            self.out.append(data)
        self.news.set()

    async def take(self, kind: int, theirs: int, payload: bytes) -> None:
        """Pass a borrower's frame on to the guest."""
        if kind == wire.OPEN:
            self.numbers[theirs] = self.link.add(Borrowed(self, theirs))
        ours = self.numbers.get(theirs)
        if ours is None:
            return
        channel = self.link.channels.get(ours)
        if kind == wire.CREDIT and isinstance(channel, Borrowed):
            channel.window += int.from_bytes(payload[:4], "big")
        if channel is not None and not channel.over:
            await self.link.send(kind, ours, payload)
        if kind == wire.DROP:
            self.forget(theirs)

    def forget(self, theirs: int) -> None:
        """Let go of one channel."""
        self.link.channels.pop(self.numbers.pop(theirs, 0), None)

    async def give_back(self) -> None:
        """Drop what the borrower left open; programs go on."""
        for theirs, ours in list(self.numbers.items()):
            channel = self.link.channels.get(ours)
            if channel is not None and not channel.over and self.link.failure is None:
                await self.link.send(wire.DROP, ours)
            self.forget(theirs)


async def relay(sock: socket.socket, link: Link) -> None:
    """Serve one borrower until it hangs up or the link ends."""
    loan = Loan(link)
    loan.put(wire.frame(wire.HELLO, 0, wire.encode(link.hello)))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver, sock, loan, tasks.cancel_scope)
            reader = wire.Reader(wire.HOST_KINDS, wire.HOST_LIMIT)
            while data := await receive(sock):
                for kind, theirs, payload in reader.feed(data):
                    await loan.take(kind, theirs, payload)
            tasks.cancel_scope.cancel()
    except* (OSError, wire.WireError, HotdeskError):
        pass  # the borrower is gone, or speaks nonsense, or the desk ended: so does its loan
    finally:
        with anyio.move_on_after(5, shield=True), suppress(HotdeskError):
            await loan.give_back()


async def deliver(sock: socket.socket, loan: Loan, scope: anyio.CancelScope) -> None:
    """Write queued frames to the borrower."""
    while True:
        while loan.out:
            await send(sock, loan.out.popleft())
        if loan.link.failure is not None or loan.stuck:
            scope.cancel()
            return
        loan.news = anyio.Event()
        await loan.news.wait()


async def join(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes both ways until both sides have ended, or either breaks off."""
    with suppress(OSError):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pour, one, other)
            await pour(other, one)


async def pour(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes one way, then their end."""
    while data := await receive(source):
        await send(target, data)
    target.shutdown(socket.SHUT_WR)
