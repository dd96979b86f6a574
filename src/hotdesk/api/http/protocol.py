"""The server's HTTP/1.1: uvicorn's, with limits on heads, waiting and connections, which can be handed over."""

from __future__ import annotations

import asyncio
import re
import resource
from collections.abc import Collection

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hotdesk.api.http.write_watch import WRITE_STALL_S, WriteWatch, reset_connection

HEAD_LIMIT = 64 << 10
"""Bytes of a request's head, approximately: data that was read together with it counts, too."""
MAX_HEADERS = 256
HEAD_TIMEOUT_S = 10.0
"""Seconds for a head, counted from the connection or its first byte; also for the rest of a body that is not read."""
BODY_TIMEOUT_S = 30.0
"""Seconds to wait for the next byte of a body."""
MAX_DESCRIPTORS = 1 << 16
"""Maximum number of file descriptors: half of them are for connections, half of those for one client address."""
JOINED_BYTES = 16 << 10
"""Bytes of a response that are sent at once, without waiting for more."""
BUFFER = 64 << 10
"""Bytes that may wait in a connection that was handed over."""
AIMED = re.compile(rb"[0-9]{1,5}-i[a-z0-9]{20}\.", re.IGNORECASE)
"""The beginning of the host name of a sandbox's port."""


class JoinedWrites:
    """The transport as responses write to it: what they write in one turn of the event loop is sent together.

    So a response's head and body, and the last messages of a stream, cost one system call and wake the client once.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.waiting: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> None:
        if not self.waiting:
            self.loop.call_soon(self.flush)
        self.waiting.append(data)
        self.size += len(data)
        if self.size > JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        if self.waiting:
            data = b"".join(self.waiting)
            self.waiting.clear()
            self.size = 0
            self.transport.write(data)

    def close(self) -> None:
        self.flush()
        self.transport.close()

    def is_closing(self) -> bool:
        return self.transport.is_closing()


class Protocol(HttpToolsProtocol):
    """One HTTP/1.1 connection."""

    joined: JoinedWrites
    size = 0
    """Bytes read since the last whole head."""
    upgraded = False
    """Whether an upgrade to another protocol was requested and has not begun."""
    is_websocket = False
    """Whether the connection has become a WebSocket, which another protocol handles."""
    unread = False
    """Whether more of a body is to come."""
    wait_timer: asyncio.TimerHandle | None = None
    """The timer that cuts the connection if nothing comes."""
    write_stall_s = WRITE_STALL_S

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.joined = JoinedWrites(transport, self.loop)
        self.writes = WriteWatch(transport, self.loop, self.write_stall_s, self.reset)
        if is_full(self.connections, self.client):
            self.reset()
            return
        self.wait(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_waiting()
        self.writes.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.writes.start()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.is_answering() or not self.transport.get_write_buffer_size():
            self.writes.stop()

    def wait(self, seconds: float) -> None:
        """Start the timeout for whatever must come next."""
        self.stop_waiting()
        self.wait_timer = self.loop.call_later(seconds, self.time_out)

    def stop_waiting(self) -> None:
        if self.wait_timer is not None:
            self.wait_timer.cancel()
            self.wait_timer = None

    def wait_on(self) -> None:
        """Start a timeout if it is the client that must send next."""
        if self.unread and self.is_answering():
            self.wait(BODY_TIMEOUT_S)
        elif self.is_answering():
            self.stop_waiting()
        elif self.wait_timer is None:
            self.wait(HEAD_TIMEOUT_S)

    def time_out(self) -> None:
        """Cut an idle connection, unless the delay is caused by the server or a sandbox."""
        self.wait_timer = None
        if self.is_answering() and (self.cycle.body or self.flow.read_paused or is_aimed(self.headers)):
            self.wait(BODY_TIMEOUT_S)
        else:
            self.reset()

    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        self.joined.flush()
        super().send_400_response(msg)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self.flow.write_paused:
            self.writes.stop()
        self.scope["extensions"] = {"hotdesk.reset": self.reset, "hotdesk.take": self.take}  # type: ignore[dict-item]

    def data_received(self, data: bytes) -> None:
        """Receive bytes. An endless head, or data before an upgrade was answered, ends the connection."""
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
        if len(self.headers) >= MAX_HEADERS:
            raise ValueError("too many headers")  # answered with 400
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reset the counters; refuse a target that is not a path, so that the Host header is the only host."""
        if not self.url.startswith(b"/"):
            raise ValueError("the request target must be a path")  # answered with 400
        self.size = 0
        self.unread = True
        super().on_headers_complete()
        if self.cycle is not None:
            self.cycle.transport = self.joined  # type: ignore[assignment] # a response needs no more of a transport

    def on_body(self, body: bytes) -> None:
        self.size = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.unread = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait briefly for the rest of an unread body, otherwise for the next request."""
        self.joined.flush()
        if self.unread:
            self.wait(HEAD_TIMEOUT_S)
        if self.transport.get_write_buffer_size():
            self.writes.start()  # closing the connection waits for the rest
        super().on_response_complete()

    def handle_websocket_upgrade(self) -> None:
        self.stop_waiting()
        self.writes.stop()
        self.is_websocket = True
        super().handle_websocket_upgrade()

    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() and not is_aimed(self.headers)

    def _unsupported_upgrade_warning(self) -> None:
        """Wait for the response; nothing else is read as a request."""
        self.upgraded = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def reset(self) -> None:
        """Cut the connection with a TCP reset, which marks a stream as incomplete.

        It does not fail if the client has already disconnected.
        """
        if self.cycle is not None:
            self.cycle.disconnected = True
        reset_connection(self.transport)

    def take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Detach the connection: the new owner answers, and this protocol no longer writes to it."""
        assert self.cycle is not None
        self.stop_waiting()
        self.joined.flush()
        self.writes.start()  # until the connection is lost
        self.cycle.response_started = self.cycle.response_complete = self.cycle.disconnected = True
        reader = asyncio.StreamReader(BUFFER, self.loop)
        protocol = HandedOverConnection(reader, self)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if not self.transport.is_closing():
            self.transport.resume_reading()
        return reader, asyncio.StreamWriter(self.transport, protocol, reader, self.loop)


class HandedOverConnection(asyncio.StreamReaderProtocol):
    """A connection that was handed over; the server is still told when it ends."""

    def __init__(self, reader: asyncio.StreamReader, first: Protocol) -> None:
        super().__init__(reader, loop=first.loop)
        self.first = first

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.first.connection_lost(exc)


def is_aimed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return whether a request is for a sandbox's port; the sandbox decides about its upgrades."""
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
    """Raise this process's limit of open files, to at most `MAX_DESCRIPTORS`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
