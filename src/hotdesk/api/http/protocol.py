"""HTTP as the server speaks it: uvicorn's, with bounds on heads, waiting and connections, and ones handed over."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import struct
from collections.abc import Collection
from contextlib import suppress

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LINGER = struct.pack("ii", 1, 0)
HEAD_LIMIT = 64 << 10
"""Bytes a request's head may have, more or less: what was read with it counts, too."""
MAX_HEADERS = 256
HEAD_TIMEOUT_S = 10.0
"""Seconds a head may take, from the connection or its first byte on; and the rest of a body nobody reads."""
BODY_TIMEOUT_S = 30.0
"""Seconds without a byte of a body that is waited for."""
MAX_DESCRIPTORS = 1 << 16
"""Descriptors a server has at most: half of them for its connections, half of those for one address."""
BUFFER = 64 << 10
"""Bytes that may wait in a connection that was handed over."""
AIMED = re.compile(rb"[0-9]{1,5}-i[a-z0-9]{20}\.", re.IGNORECASE)
"""How a name begins that leads to a sandbox's port."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    size = 0
    """Bytes read since the last whole head."""
    upgraded = False
    """Whether another protocol was asked for that is not begun yet."""
    is_websocket = False
    """Whether the connection is somebody else's by now, who speaks WebSocket."""
    unread = False
    """Whether more of a body is to come."""
    wait_timer: asyncio.TimerHandle | None = None
    """What ends it when nothing comes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head; one connection too many is cut."""
        super().connection_made(transport)
        if is_full(self.connections, self.client):
            self.reset()
            return
        self.wait(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self.stop_waiting()
        super().connection_lost(exc)

    def wait(self, seconds: float) -> None:
        """Wait so long, from now, for what must come next."""
        self.stop_waiting()
        self.wait_timer = self.loop.call_later(seconds, self.time_out)

    def stop_waiting(self) -> None:
        """Wait for nothing."""
        if self.wait_timer is not None:
            self.wait_timer.cancel()
            self.wait_timer = None

    def wait_on(self) -> None:
        """Wait for what must come next, if it is the client that must send it."""
        if self.unread and self.is_answering():
            self.wait(BODY_TIMEOUT_S)
        elif self.is_answering():
            self.stop_waiting()
        elif self.wait_timer is None:
            self.wait(HEAD_TIMEOUT_S)

    def time_out(self) -> None:
        """Cut a connection of which nothing comes, unless it is we or a sandbox who take their time."""
        self.wait_timer = None
        if self.is_answering() and (self.cycle.body or self.flow.read_paused or is_aimed(self.headers)):
            self.wait(BODY_TIMEOUT_S)
        else:
            self.reset()

    def is_answering(self) -> bool:
        """Return whether there is a request that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Let whoever answers cut it, or have it as it is."""
        super().on_message_begin()
        self.scope["extensions"] = {"hotdesk.reset": self.reset, "hotdesk.take": self.take}  # type: ignore[dict-item]

    def data_received(self, data: bytes) -> None:
        """Read on; a head without an end, or words before an upgrade was answered, end the connection."""
        self.size += len(data)
        if self.upgraded:
            self.reset()
            return
        super().data_received(data)
        if self.size > HEAD_LIMIT + len(data):
            self.reset()
        elif not self.transport.is_closing() and not (self.upgraded or self.is_websocket):
            self.wait_on()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, and not too many."""
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")  # answered with 400
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to count anew; a target is a path, so that there is one host, the header's."""
        if not self.url.startswith(b"/"):
            raise ValueError("the request target must be a path")  # answered with 400
        self.size = 0
        self.unread = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Count nothing of a body."""
        self.size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Have read a request to its end."""
        self.unread = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait a little for what is left of a body nobody read; else for the next request."""
        if self.unread:
            self.wait(HEAD_TIMEOUT_S)
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to whoever speaks WebSocket."""
        self.stop_waiting()
        self.is_websocket = True
        super().handle_websocket_upgrade()

    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() and not is_aimed(self.headers)

    def _unsupported_upgrade_warning(self) -> None:
        """Wait for whoever answers; nothing else is read as a request."""
        self.upgraded = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def reset(self) -> None:
        """Cut the connection with a TCP reset: a stream that ends so has not ended well.

        Its client may have hung up before: whoever cuts the connections of a sandbox never fails at one of them.
        """
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            with suppress(OSError):  # closed already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
        if self.cycle is not None:
            self.cycle.disconnected = True
        self.transport.abort()

    def take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Hand the connection over as it is: whoever takes it answers, and nobody here writes to it any more."""
        assert self.cycle is not None
        self.stop_waiting()
        self.cycle.response_started = self.cycle.response_complete = self.cycle.disconnected = True
        reader = asyncio.StreamReader(BUFFER, self.loop)
        protocol = HandedOverConnection(reader, self)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if not self.transport.is_closing():
            self.transport.resume_reading()
        return reader, asyncio.StreamWriter(self.transport, protocol, reader, self.loop)


class HandedOverConnection(asyncio.StreamReaderProtocol):
    """A connection that was handed over; the server still knows when it ends."""

    def __init__(self, reader: asyncio.StreamReader, first: Protocol) -> None:
        super().__init__(reader, loop=first.loop)
        self.first = first

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever had it first, too."""
        super().connection_lost(exc)
        self.first.connection_lost(exc)


def is_aimed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a request is for a sandbox's port: what it asks to become is for the sandbox to say."""
    return any(
        name == b"e2b-sandbox-id" or (name == b"host" and AIMED.match(value) is not None) for name, value in headers
    )


def is_full(connections: Collection[object], client: tuple[str, int] | None) -> bool:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
    if len(connections) <= most // 2:
        return False
    address = client[0] if client else ""
    same = sum(1 for each in connections if ((getattr(each, "client", None) or ("",))[0]) == address)
    return len(connections) > most or same > most // 2


def widen() -> None:
    """Raise this process's limit of open files, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
