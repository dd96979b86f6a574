"""One TCP connection, plain or TLS, read as data arrives and written with back-pressure."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
from typing import cast

HIGH = 256 << 10
"""Bytes read ahead before the peer is made to wait."""
PIECE = 32 << 10
"""Bytes processed at a time, so that other desks do not wait long."""
BODY_SECONDS = 120.0
"""Seconds without progress that are allowed while a body is transferred."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose closing resets the connection."""


class HungUpError(Exception):
    """The peer disconnected, or took too long."""


class TimedOutError(HungUpError):
    """No data arrived in time; the peer may be working all the same."""


class Wire(asyncio.Protocol):
    """A connection with at most one reading and one writing task at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.source: asyncio.Transport
        """The transport to pause: with TLS the one below, because uvloop loses data that TLS holds back at its end."""
        self.buffer = bytearray()
        self.ended = False
        """Whether the peer will send no more data."""
        self.lost = False
        self.cut_off = False
        """Whether the connection was lost before the peer ended it: what it sent last may be missing."""
        self.stopped = False
        """Whether reading is paused, so that the peer waits."""
        self.reader: asyncio.Future[None] | None = None
        self.writer: asyncio.Future[None] | None = None
        self.full = False
        self.until = math.inf
        """Deadline of the current wait for data, in the event loop's time."""
        self.alarm: asyncio.TimerHandle | None = None
        """A timer that fires no later than `until`."""

    # -- asyncio callbacks ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = self.source = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if len(self.buffer) > HIGH and not self.stopped:
            self.stopped = True
            self.source.pause_reading()
        self.wake_reader()

    def eof_received(self) -> bool:
        """Record that no more data arrives; the response can still be written."""
        self.ended = True
        self.wake_reader()
        return self.transport.get_extra_info("sslcontext") is None  # TLS cannot be half closed

    def connection_lost(self, _why: Exception | None) -> None:
        self.cut_off = not self.ended  # TLS reports an end only after `close_notify`
        self.ended = self.lost = True
        if self.alarm is not None:
            self.alarm.cancel()
            self.alarm = None
        self.wake_reader()
        self.resume_writing()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        if self.writer is not None and not self.writer.done():
            self.writer.set_result(None)

    def wake_reader(self) -> None:
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)

    # -- reading and writing ----------------------------------------------------------------------------------

    async def fill(self, seconds: float) -> bool:
        """Wait for more data; return whether any arrived before the end."""
        length = len(self.buffer)
        if self.stopped:
            self.stopped = False
            self.source.resume_reading()
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
        """Set the deadline of a wait. An earlier timer is kept and checks again when it fires: most waits are short."""
        self.until = until
        if self.alarm is not None and self.alarm.when() > until:
            self.alarm.cancel()
            self.alarm = None
        if self.alarm is None and not self.lost:
            self.alarm = self.loop.call_at(until, self.ring)

    def ring(self) -> None:
        """End a wait whose deadline has passed, or set the timer again for a newer wait."""
        self.alarm = None
        if self.reader is not None and self.until <= self.loop.time():
            expire(self.reader)
        elif self.reader is not None and self.until < math.inf:
            self.set_alarm(self.until)

    async def read(self, seconds: float) -> bytes:
        """Return received data, at most `PIECE` bytes; empty at the end."""
        if not self.buffer and not await self.fill(seconds):
            return b""
        data = bytes(self.buffer[:PIECE])
        del self.buffer[:PIECE]
        if self.stopped and len(self.buffer) < HIGH:
            self.stopped = False
            self.source.resume_reading()
        return data

    def write(self, data: bytes) -> None:
        """Send bytes; `drain` waits while too many are queued."""
        if self.lost:
            raise HungUpError("the connection was closed")
        self.transport.write(data)

    async def drain(self, seconds: float) -> None:
        """Wait until the peer has read most of what was sent."""
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
        """Stop reading until data is wanted: the next bytes may belong to TLS."""
        if not self.stopped:
            self.stopped = True
            self.source.pause_reading()

    async def start_tls(self, context: ssl.SSLContext, *, name: str | None = None, seconds: float = 10.0) -> None:
        """Start TLS: as a client of `name`, or as a server."""
        self.stopped = False  # the handshake resumes reading
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
            raise HungUpError("the other side closed the connection")
        self.transport = transport
        self.transport.set_write_buffer_limits(HIGH)

    async def linger(self, seconds: float) -> None:
        """Let the peer read what was sent before closing: unread bytes would make the kernel reset the connection."""
        end = self.loop.time() + seconds
        try:
            while (remaining := end - self.loop.time()) > 0 and await self.read(remaining):
                pass
        except HungUpError:
            pass

    @property
    def can_be_half_closed(self) -> bool:
        return self.transport.can_write_eof()

    def end_sending(self) -> bool:
        """End the data for the peer, which may still send; return `False` if the connection cannot be half closed."""
        if not self.can_be_half_closed or self.lost:
            return False
        self.transport.write_eof()
        return True

    async def end(self, seconds: float) -> None:
        """Close after everything queued was sent; reset the connection if that takes longer than `seconds`."""
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
            self.reset()

    def close(self) -> None:
        """Close after everything queued was passed to the kernel."""
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def reset(self) -> None:
        """Abort so that the peer sees an error, and no end of the data."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and not self.lost:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


def expire(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimedOutError("no data was received in time"))
