"""One TCP connection, plain or TLS, read as it comes and written with back-pressure."""

from __future__ import annotations

import asyncio
import math
import ssl
from typing import cast

HIGH = 256 << 10
"""Bytes read ahead before the other side is made to wait."""
PIECE = 32 << 10
"""Bytes handled at a time: what is done to them must not keep other desks waiting."""


class HungUpError(Exception):
    """The other side went away, or took too long."""


class TimedOutError(HungUpError):
    """Nothing came for too long; the other side may be at work all the same."""


class Wire(asyncio.Protocol):
    """A connection whose reader and writer are one task at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.buffer = bytearray()
        self.ended = False
        """Whether the other side will say no more."""
        self.lost = False
        self.stopped = False
        """Whether the other side is made to wait."""
        self.reader: asyncio.Future[None] | None = None
        self.writer: asyncio.Future[None] | None = None
        self.full = False
        self.until = math.inf
        """When the wait for more to read is over."""
        self.alarm: asyncio.TimerHandle | None = None
        """Rings no later than that."""

    # -- asyncio's side ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, or the TLS one that replaces it."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self.buffer += data
        if len(self.buffer) > HIGH and not self.stopped:
            self.stopped = True
            self.transport.pause_reading()
        self.wake_reader()

    def eof_received(self) -> bool:
        """Note that no more comes; what is still to be said may be."""
        self.ended = True
        self.wake_reader()
        return self.transport.get_extra_info("sslcontext") is None  # TLS cannot be half closed

    def connection_lost(self, _why: Exception | None) -> None:
        """Note the end."""
        self.ended = self.lost = True
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        self.wake_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Note that enough is on its way."""
        self.full = True

    def resume_writing(self) -> None:
        """Let a writer go on."""
        self.full = False
        if self.writer is not None and not self.writer.done():
            self.writer.set_result(None)

    def wake_reader(self) -> None:
        """Let a reader look again."""
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)

    # -- our side ---------------------------------------------------------------------------------------------

    async def fill(self, seconds: float) -> bool:
        """Wait until there is more to read than there was; False at the end."""
        length = len(self.buffer)
        if self.stopped:
            self.stopped = False
            self.transport.resume_reading()
        while len(self.buffer) == length and not self.ended:
            self.reader = self.loop.create_future()
            self.set_alarm(self.loop.time() + seconds)
            try:
                await self.reader
            finally:
                self.until = math.inf
                self.reader = None
        return len(self.buffer) > length

    def set_alarm(self, until: float) -> None:
        """Have a wait end then. The alarm of an earlier wait is left to ring and look again: most waits are short."""
        self.until = until
        if self.alarm is not None and self.alarm.when() > until:
            self.alarm.cancel()
            self.alarm = None
        if self.alarm is None and not self.lost:
            self.alarm = self.loop.call_at(until, self.ring)

    def ring(self) -> None:
        """End a wait whose time is up; one that began since has more."""
        self.alarm = None
        if self.reader is not None and self.until <= self.loop.time():
            expire(self.reader)
        elif self.reader is not None and self.until < math.inf:
            self.set_alarm(self.until)

    async def read(self, seconds: float) -> bytes:
        """Return what has come, at most one piece of it; nothing at the end."""
        if not self.buffer and not await self.fill(seconds):
            return b""
        data = bytes(self.buffer[:PIECE])
        del self.buffer[:PIECE]
        if self.stopped and len(self.buffer) < HIGH:
            self.stopped = False
            self.transport.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """Send bytes; `drain` waits while too many are on their way."""
        if self.lost:
            raise HungUpError("the connection was closed")
        self.transport.write(data)

    async def drain(self, seconds: float) -> None:
        """Wait until the other side took most of what was sent."""
        while self.full and not self.lost:
            self.writer = self.loop.create_future()
            alarm = self.loop.call_later(seconds, expire, self.writer)
            try:
                await self.writer
            finally:
                alarm.cancel()
                self.writer = None
        if self.lost:
            raise HungUpError("the connection was closed")

    def hold(self) -> None:
        """Read nothing until somebody wants it: what comes may be for TLS."""
        if not self.stopped:
            self.stopped = True
            self.transport.pause_reading()

    async def start_tls(self, context: ssl.SSLContext, *, name: str | None = None, seconds: float = 10.0) -> None:
        """Speak TLS from here on: as a client to `name`, or as a server."""
        transport = await self.loop.start_tls(
            self.transport,
            self,
            context,
            server_side=name is None,
            server_hostname=name,
            ssl_handshake_timeout=seconds,
            ssl_shutdown_timeout=2.0,
        )
        if transport is None:
            raise HungUpError("the connection was closed during the TLS handshake")
        self.transport = transport
        self.transport.set_write_buffer_limits(HIGH)
        self.stopped = False

    async def linger(self, seconds: float) -> None:
        """Let the other side read what was sent before the connection goes: bytes nobody read would cut it short."""
        end = self.loop.time() + seconds
        try:
            while (remaining := end - self.loop.time()) > 0 and await self.read(remaining):
                pass
        except HungUpError:
            pass

    async def end(self, seconds: float) -> None:
        """Hang up when what was sent was taken; who takes nothing is cut off."""
        self.transport.close()
        until = self.loop.time() + seconds
        while not self.lost and (remaining := until - self.loop.time()) > 0:
            self.reader = self.loop.create_future()
            alarm = self.loop.call_later(remaining, self.wake_reader)
            try:
                await self.reader
            finally:
                alarm.cancel()
                self.reader = None
        if not self.lost:
            self.transport.abort()

    def close(self) -> None:
        """Hang up when what was sent is on its way."""
        self.transport.close()

    def abort(self) -> None:
        """Hang up now."""
        self.transport.abort()


def expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimedOutError("no data was received in time"))
