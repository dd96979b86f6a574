"""A listener that speaks HTTP/2 over TLS, and a client that can send it any frame."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import H2Error
from hyperframe.frame import Frame, GoAwayFrame, RstStreamFrame
from starlette.types import Receive, Scope, Send

from hotdesk.api.http.http2.connection import NegotiatedProtocol
from tests.upstream import make_certificates

NAME = "desk.example.test"
Fields = list[tuple[str, str]]


@dataclass
class Http2Room:
    """A running listener and what its application received."""

    port: int
    trust: ssl.SSLContext
    heard: list[Scope] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Paths of requests whose application was notified that the client disconnected."""
    answered: list[str] = field(default_factory=list)
    """Paths of requests whose application has sent its answer, whether or not the client read it."""

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the length of a body; `/slow` waits for its client to disconnect, `/stubborn` does not."""
        self.heard.append(scope)
        path = scope["path"]
        if path == "/stubborn":
            await asyncio.sleep(3600)
        size = 0
        while path == "/slow" or (message := await receive()).get("more_body") or "body" in message:
            if path == "/slow":
                while (await receive())["type"] != "http.disconnect":
                    pass
                self.ended.append(path)
                return
            size += len(message["body"])
            if not message.get("more_body"):
                break
        body = b"x" * int(scope["query_string"] or b"0") or str(size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body})
        self.answered.append(path)


class Impatient(NegotiatedProtocol):
    """Gives up on a client sooner, so that tests need not wait."""

    write_stall_s = 1.0


@contextlib.contextmanager
def http2_room(folder: Path) -> Iterator[Http2Room]:
    ca, chain = make_certificates(folder, NAME)
    trust = ssl.create_default_context(cafile=str(ca))
    trust.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0))
    room = Http2Room(listener.getsockname()[1], trust)
    config = uvicorn.Config(
        room.app, interface="asgi3", http=Impatient, ssl_certfile=str(chain), lifespan="off",
        log_config=None, access_log=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    config.load()
    assert config.ssl is not None
    config.ssl.set_alpn_protocols(["h2", "http/1.1"])
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield room
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)


class Http2Client:
    """A client that follows the protocol only where a test wants it to."""

    def __init__(self, room: Http2Room) -> None:
        plain = socket.create_connection(("127.0.0.1", room.port), timeout=10)
        self.sock = room.trust.wrap_socket(plain, server_hostname=NAME)
        assert self.sock.selected_alpn_protocol() == "h2"
        config = H2Configuration(
            client_side=True, header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.state = H2Connection(config)
        self.state.initiate_connection()
        self.state.increment_flow_control_window(8 << 20)
        self.events: list[Event] = []
        self.is_closed = False
        self.unread = bytearray()
        self.resets: set[int] = set()
        """Streams that the server reset."""
        self.codes: list[int] = []
        """Error codes with which the server ended the connection."""
        self.flush()

    def __enter__(self) -> Http2Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def flush(self) -> None:
        self.send(self.state.data_to_send())

    def send(self, data: bytes) -> None:
        """Send raw bytes; the server may already have closed the connection."""
        try:
            self.sock.sendall(data)
        except OSError:
            self.is_closed = True

    def send_frames(self, *frames: Frame) -> None:
        self.send(b"".join(frame.serialize() for frame in frames))

    def request(self, path: str = "/", *, end: bool = True, method: str = "GET", fields: Fields | None = None) -> int:
        """Begin a request; return its stream id."""
        stream = self.state.get_next_available_stream_id()
        usual = [(":method", method), (":path", path), (":scheme", "https"), (":authority", NAME)]
        self.state.send_headers(stream, usual + (fields or []), end_stream=end)
        self.flush()
        return stream

    def read(self, seconds: float = 5.0) -> bool:
        """Read the next data; return `False` if the connection is over or nothing arrives."""
        self.sock.settimeout(seconds)
        try:
            data = self.sock.recv(1 << 16)
        except TimeoutError:
            return False
        except OSError:
            data = b""
        if not data:
            self.is_closed = True
            return False
        self.note_frames(data)
        with contextlib.suppress(H2Error):  # our own protocol state does not know the raw bytes we sent
            for event in self.state.receive_data(data):
                self.take_event(event)
        self.flush()
        return True

    def take_event(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, DataReceived):
            self.state.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id or 0)

    def note_frames(self, data: bytes) -> None:
        self.unread += data
        while len(self.unread) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(bytes(self.unread[:9])))
            if len(self.unread) < 9 + length:
                return
            frame.parse_body(memoryview(bytes(self.unread[9 : 9 + length])))
            del self.unread[: 9 + length]
            if isinstance(frame, RstStreamFrame):
                self.resets.add(frame.stream_id)
            elif isinstance(frame, GoAwayFrame):
                self.codes.append(frame.error_code)

    def answer(self, stream: int) -> tuple[int, bytes]:
        """Read an answer to its end; the status is 0 if the stream was reset."""
        while not self.is_closed:
            mine = [event for event in self.events if getattr(event, "stream_id", None) == stream]
            if stream in self.resets or any(isinstance(event, StreamEnded | StreamReset) for event in mine):
                break
            if not self.read():
                break
        mine = [event for event in self.events if getattr(event, "stream_id", None) == stream]
        heads = [event for event in mine if isinstance(event, ResponseReceived)]
        status = int(dict(heads[0].headers or [])[":status"]) if heads else 0  # type: ignore[index]
        body = b"".join(bytes(event.data or b"") for event in mine if isinstance(event, DataReceived))
        return status, body

    def goodbye(self, seconds: float = 5.0) -> int | None:
        """Read until the server ends the connection; return its error code, or `None` if it does not end it."""
        end = time.monotonic() + seconds
        while not self.is_closed and time.monotonic() < end:
            if not self.read(max(0.1, end - time.monotonic())):
                break
        return self.codes[0] if self.codes else -1 if self.is_closed else None
