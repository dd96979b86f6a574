"""One connection to a desk's screen: sends RFB requests, and reads updates into the frame."""

from __future__ import annotations

import socket

import anyio
from anyio.lowlevel import checkpoint

from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.rfb import Conversation

MAX_REPLY_BYTES = 64 << 20
"""Bytes that may arrive before a reply: a server that sends more never intends to reply."""
_BREATH = 1 << 20
"""Bytes read before other tasks may run."""

PIECES = 16 << 10
"""Bytes received at once when many small messages may be in them."""


class ScreenConnection:
    """Carries one RFB conversation; the caller sets the deadline."""

    def __init__(self, connection: socket.socket, size: tuple[int, int], most: int = MAX_REPLY_BYTES) -> None:
        self.connection = connection
        self.most = most
        self.conversation = Conversation(*size)
        self.pieces = bytearray(PIECES)
        self.painted = False
        """Whether the whole frame has been received once, so that changes are enough from now on."""

    @property
    def frame(self) -> bytearray:
        return self.conversation.frame

    async def shake_hands(self) -> None:
        while not self.conversation.ready:
            await self.receive()
            self.conversation.updates.clear()  # no update was requested yet
            if not self.conversation.ready:
                await self.send(b"")

    async def is_alive(self) -> bool:
        """Read data that arrived without a request; return whether the connection is still open."""
        try:
            for _ in range(max(1, self.most // _BREATH)):
                if not self.read():
                    return True
                self.conversation.updates.clear()
                await checkpoint()
        except OSError:
            pass
        return False

    async def send(self, data: bytes | bytearray) -> None:
        rest = memoryview(bytes(self.conversation.outgoing + data))
        self.conversation.outgoing.clear()
        while rest:
            try:
                rest = rest[self.connection.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self.connection)

    async def wait_for_update(self, x: int, y: int) -> bool:
        """Read until a pixel was painted; return whether any other pixel was."""
        more, came = False, 0
        while came < self.most:
            came += await self.receive()
            for painted in self.conversation.updates:
                area = sum(each.area for each in painted)
                more = more or area > 1
                self.painted = self.painted or area >= self.conversation.width * self.conversation.height
            found = any(each.holds(x, y) for painted in self.conversation.updates for each in painted)
            self.conversation.updates.clear()
            if found:
                return more
        raise ProtocolError(f"the requested screen update did not arrive within {self.most:,} bytes")

    async def receive(self) -> int:
        """Wait for data and process it; return the number of bytes."""
        await checkpoint()
        while not (count := self.read()):
            await anyio.wait_readable(self.connection)
        return count

    def read(self) -> int:
        """Process the available data, about `_BREATH` bytes at most, until an update is complete; return its size."""
        count = 0
        while count < _BREATH and not self.conversation.updates:
            room = self.conversation.get_space()
            straight = len(room) >= len(self.pieces)
            try:
                came = self.connection.recv_into(room if straight else self.pieces)
            except BlockingIOError:
                break
            if not came:
                raise ConnectionError("the screen closed its connection to hotdesk (it may have crashed); try again")
            count += came
            if straight:
                self.conversation.advance(came)
            else:
                self.conversation.feed(memoryview(self.pieces)[:came])
        return count

    def close(self) -> None:
        self.connection.close()
