"""Lend a link to another process: its frames go to the guest under channel numbers of ours, and back.

And join two sockets, for a stream that has no frames.
"""

from __future__ import annotations

import re
import select
import socket
from collections import deque
from contextlib import suppress

import anyio
import anyio.lowlevel

from hotdesk.config import MIB
from hotdesk.desk.link.link import Link
from hotdesk.errors import HostError, HotdeskError
from hotdesk.linux.sockets import receive, send
from hotdesk_guest import wire

MAX_FRAMES = 1 << 16
"""Frames that may wait for a borrower."""
MAX_BYTES = 64 * MIB
"""What they may take together."""
_MAX_CHANNELS = 4096
"""What one borrower may have open."""
OWNERS_ALONE = re.compile(rb"ops0{0,19}(?:4:acts|4:park|6:rejoin|6:settle)")
"""Requests not for borrowers: to answer `sudo`, which would then not be noted, to begin anew, to change the host.

Wherever a value has such an operation it has these bytes; it is not read for that, as it may be large.
"""
SLICE = 64
"""Frames of one borrower that are passed on before others get their turn."""


class Borrowed:
    """One channel of the borrower, as the link sees it: frames pass through as they are, within their window."""

    def __init__(self, loan: Loan, theirs: int) -> None:
        self.loan = loan
        self.theirs = theirs
        self.window = wire.WINDOW
        """What the guest may still send."""
        self.credit = wire.WINDOW
        """What the borrower may still send."""
        self.over = False

    def deliver(self, kind: int, payload: bytes) -> None:
        if kind in (wire.DATA, wire.EVENT):
            self.window -= wire.compute_cost(payload)
            if self.window < 0 or not payload:
                raise wire.WireError("the guest sent more data than allowed")
        elif kind == wire.CREDIT:
            self.credit += int.from_bytes(payload, "big")
            if self.credit > wire.WINDOW:
                raise wire.WireError("the guest returned more flow-control credit than allowed")
        self.loan.put(wire.encode_frame(kind, self.theirs, payload))
        if kind == wire.REPLY:
            self.over = True
            self.loan.forget(self.theirs)

    def charge(self, kind: int, payload: bytes) -> None:
        """Hold the borrower to its windows: a guest would believe it, and its owner then give up the guest."""
        if kind == wire.CREDIT:
            self.window += int.from_bytes(payload, "big")
            if len(payload) != 4 or self.window > wire.WINDOW:
                raise wire.WireError("a client of the desk returned more flow-control credit than allowed")
        elif kind == wire.DATA:
            self.credit -= len(payload) - 1
            if self.credit < 0 or not payload:
                raise wire.WireError("a client of the desk sent more data than allowed")

    def wake(self) -> None:
        self.loan.news.set()


class Loan:
    """The open channels of one borrower."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.numbers: dict[int, int] = {}
        self.out: deque[bytes] = deque()
        self.waiting = 0
        """Bytes queued."""
        self.news = anyio.Event()
        self.scope = anyio.CancelScope()

    def put(self, data: bytes) -> None:
        """Queue a frame for the borrower; one that never reads loses its loan."""
        self.out.append(data)
        self.waiting += len(data)
        self.news.set()
        if len(self.out) > MAX_FRAMES or self.waiting > MAX_BYTES:
            self.out.clear()
            self.waiting = 0
            self.scope.cancel()

    async def take(self, kind: int, theirs: int, payload: bytes) -> None:
        if kind == wire.OPEN and OWNERS_ALONE.search(payload):
            refusal = {"error": "denied", "text": "only the process that opened the desk may send this request"}
            self.put(wire.encode_frame(wire.REPLY, theirs, wire.encode(refusal)))
            return
        if kind == wire.OPEN:
            if theirs in self.numbers or len(self.numbers) >= _MAX_CHANNELS:
                raise wire.WireError(
                    f"a client of the desk opened a channel twice, or more than {_MAX_CHANNELS} channels"
                )
            self.numbers[theirs] = self.link.add(Borrowed(self, theirs))
        ours = self.numbers.get(theirs)
        if ours is None:
            return
        channel = self.link.channels.get(ours)
        if isinstance(channel, Borrowed):
            channel.charge(kind, payload)
        if channel is not None and not channel.over:
            try:
                await self.link.send(kind, ours, payload)
            except HostError as e:  # root's act could not be recorded: the caller is told
                self.put(wire.encode_frame(wire.REPLY, theirs, wire.encode({"error": "other", "text": str(e)})))
                self.forget(theirs)
        if kind == wire.DROP:
            self.forget(theirs)

    def forget(self, theirs: int) -> None:
        self.link.channels.pop(self.numbers.pop(theirs, 0), None)

    async def give_back(self) -> None:
        """Close what the borrower left open, even if the guest does not answer; programs continue."""
        channels = [(ours, self.link.channels.get(ours)) for ours in self.numbers.values()]
        for theirs in list(self.numbers):
            self.forget(theirs)
        for ours, channel in channels:
            if channel is not None and not channel.over and self.link.failure is None:
                await self.link.send(wire.DROP, ours)


async def relay(sock: socket.socket, link: Link) -> None:
    """Serve one borrower until it hangs up or the link ends."""
    loan = Loan(link)
    loan.put(wire.encode_frame(wire.HELLO, 0, wire.encode(link.hello)))
    try:
        async with anyio.create_task_group() as tasks:
            loan.scope = tasks.cancel_scope
            tasks.start_soon(deliver, sock, loan)
            tasks.start_soon(tell_end, loan)
            await pass_on(sock, loan)
            tasks.cancel_scope.cancel()
    except* (OSError, wire.WireError, HotdeskError):
        pass  # the borrower is gone, or speaks nonsense, or the desk ended: so does its loan
    finally:
        with anyio.move_on_after(5, shield=True), suppress(HotdeskError):
            await loan.give_back()


async def tell_end(loan: Loan) -> None:
    """Tell a borrower that the link ended, even if it has nothing open."""
    await loan.link.ended.wait()
    loan.news.set()


async def pass_on(sock: socket.socket, loan: Loan) -> None:
    """Pass the borrower's frames to the guest until it hangs up."""
    reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
    count = 0
    while data := await receive(sock):
        reader.buffer += data
        while (frame := reader.read_next()) is not None:
            await loan.take(*frame)
            count += 1
            if count % SLICE == 0:
                await anyio.lowlevel.checkpoint()


async def deliver(sock: socket.socket, loan: Loan) -> None:
    while True:
        while loan.out:
            data = loan.out.popleft()
            loan.waiting -= len(data)
            await send(sock, data)
        if loan.link.failure is not None:
            loan.scope.cancel()
            return
        loan.news = anyio.Event()
        await loan.news.wait()


async def join(caller: socket.socket, inside: socket.socket) -> None:
    """Pass bytes both ways until both sides have ended, either breaks off, or the caller is gone."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_copy_bytes, inside, caller)
            await _copy_bytes(caller, inside)
            if is_gone(caller):
                tasks.cancel_scope.cancel()  # a server inside may hold its side for ever
    except* OSError:
        pass


async def _copy_bytes(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes one way, then their end."""
    while data := await receive(source):
        await send(target, data)
        await anyio.lowlevel.checkpoint()
    target.shutdown(socket.SHUT_WR)


def is_gone(sock: socket.socket) -> bool:
    """Return whether the other end is gone altogether, and not only done with speaking."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
