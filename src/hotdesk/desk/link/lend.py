"""Lend a link to another process: relay its frames to the guest under other channel numbers, and the replies back.

Also join two sockets, for streams without frames.
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
"""Maximum frames queued for a borrower."""
MAX_BYTES = 64 * MIB
"""Maximum bytes of those frames."""
_MAX_CHANNELS = 4096
"""Maximum open channels of one borrower."""
OWNERS_ALONE = re.compile(rb"ops0{0,19}(?:4:acts|4:park|6:rejoin|6:settle)")
"""Requests refused for borrowers: answering `sudo` unrecorded, resetting the guest, parking or rejoining it.

Every request with such an operation contains these bytes. It is not decoded, as it may be large.
"""
_GONE_INTERVAL_S = 0.5
"""Seconds between two checks whether a caller that sends no more is gone. No event tells that: its end is readable."""
SLICE = 64
"""Frames of one borrower that are relayed before other tasks run."""


class Borrowed:
    """A borrower's channel as the link sees it: relays frames unchanged, within the flow-control windows."""

    def __init__(self, loan: Loan, theirs: int) -> None:
        self.loan = loan
        self.theirs = theirs
        self.window = wire.WINDOW
        """Bytes the guest may still send."""
        self.credit = wire.WINDOW
        """Bytes the borrower may still send."""
        self.over = False

    def deliver(self, kind: int, payload: bytes) -> None:
        if kind in (wire.DATA, wire.EVENT):
            self.window -= wire.compute_cost(payload)
            if self.window < 0 or not payload:
                raise wire.WireError("it sent more data than allowed")
        elif kind == wire.CREDIT:
            self.credit += int.from_bytes(payload, "big")
            if self.credit > wire.WINDOW:
                raise wire.WireError("it returned more flow-control credit than allowed")
        self.loan.put(wire.encode_frame(kind, self.theirs, payload))
        if kind == wire.REPLY:
            self.over = True
            self.loan.forget(self.theirs)

    def charge(self, kind: int, payload: bytes) -> None:
        """Check the borrower's frames against the windows: a guest would be blamed for the excess they cause."""
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
        """Queue a frame for the borrower; one that does not read loses its loan."""
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
            except HostError as e:  # the act of root could not be recorded: report that to the caller
                self.put(wire.encode_frame(wire.REPLY, theirs, wire.encode({"error": "other", "text": str(e)})))
                self.forget(theirs)
        if kind == wire.DROP:
            self.forget(theirs)

    def forget(self, theirs: int) -> None:
        self.link.channels.pop(self.numbers.pop(theirs, 0), None)

    async def give_back(self) -> None:
        """Close the borrower's open channels, even if the guest does not answer. Programs continue."""
        channels = [(ours, self.link.channels.get(ours)) for ours in self.numbers.values()]
        for theirs in list(self.numbers):
            self.forget(theirs)
        for ours, channel in channels:
            if channel is not None and not channel.over and self.link.failure is None:
                await self.link.send(wire.DROP, ours)


async def relay(sock: socket.socket, link: Link) -> None:
    """Serve one borrower until it disconnects or the link ends."""
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
        pass  # the borrower is gone or broke the protocol, or the desk ended: the loan ends
    finally:
        with anyio.move_on_after(5, shield=True), suppress(HotdeskError):
            await loan.give_back()


async def tell_end(loan: Loan) -> None:
    """Wake the sender when the link ends, even if the borrower has no open channel."""
    await loan.link.ended.wait()
    loan.news.set()


async def pass_on(sock: socket.socket, loan: Loan) -> None:
    """Relay the borrower's frames to the guest until it disconnects."""
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
    """Copy bytes both ways until both sides have ended, one fails, or the caller is gone."""
    answered = anyio.Event()

    async def answer() -> None:
        await _copy_bytes(inside, caller)
        answered.set()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await _copy_bytes(caller, inside)
            while not answered.is_set() and not is_gone(caller):
                with anyio.move_on_after(_GONE_INTERVAL_S):
                    await answered.wait()
            tasks.cancel_scope.cancel()  # a server inside may keep its side open forever
    except* OSError:
        pass


async def _copy_bytes(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes one way, then the end of the stream."""
    while data := await receive(source):
        await send(target, data)
        await anyio.lowlevel.checkpoint()
    target.shutdown(socket.SHUT_WR)


def is_gone(sock: socket.socket) -> bool:
    """Return whether the other end is closed in both directions, not only for sending."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
