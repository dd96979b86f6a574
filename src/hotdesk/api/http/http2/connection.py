"""One HTTP/2 connection: bytes in and out of `h2`, streams as tasks, and limits on what a client may send."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import DenialOfServiceError, H2Error
from h2.settings import SettingCodes, Settings
from starlette.types import Scope

from hotdesk.api.http.http2.flood import PER_DATA_FRAME, PER_REQUEST, FloodBudget
from hotdesk.api.http.http2.heads import HeadError, read_head
from hotdesk.api.http.http2.stream import Http2Stream, build_scope
from hotdesk.api.http.protocol import HEAD_LIMIT, HEAD_TIMEOUT_S, MAX_HEADERS, Protocol

MAX_STREAMS = 100
"""Concurrent requests of one connection, including cancelled ones that have not ended yet."""
STREAM_WINDOW = 256 << 10
CONNECTION_WINDOW = 1 << 20
"""Bytes of bodies that may wait to be read: of one request, and of all."""
IDLE_TIMEOUT_S = 75.0
_INITIAL_WINDOW = 65535
_PIECE = 256 << 10
"""Bytes that are sent at a time, so that other requests get their turn."""
_UNFINISHED_LIMIT = HEAD_LIMIT + (32 << 10)
"""Bytes that may be received without completing a frame or head."""


class Http2Connection(asyncio.Protocol):
    """Speaks HTTP/2 over a connection that HTTP/1.1's protocol accepted."""

    def __init__(self, first: NegotiatedProtocol) -> None:
        self.loop, self.app = first.loop, first.app
        self.client, self.server = first.client, first.server
        self.connections, self.tasks, self.server_state = first.connections, first.tasks, first.server_state
        self.write_stall_s = first.write_stall_s
        self.base = _build_base_scope(first)
        self.transport: asyncio.Transport
        self.state = _new_state()
        self.streams: dict[int, Http2Stream] = {}
        self.running = 0
        """Tasks that answer requests of this connection, including those of ended streams."""
        self.budget = FloodBudget(self.loop.time())
        self.unfinished = 0
        self.is_closing = False
        self.writable = asyncio.Event()
        self.writable.set()
        self.timer: asyncio.TimerHandle | None = None

    # -- the transport's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.connections.add(self)  # type: ignore[arg-type]
        self.state.initiate_connection()
        self.state.increment_flow_control_window(CONNECTION_WINDOW - _INITIAL_WINDOW)
        self.flush()
        self._wait(HEAD_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self._stop_waiting()
        self.is_closing = True
        self.writable.set()
        for stream in list(self.streams.values()):
            stream.abandon()

    def pause_writing(self) -> None:
        """Stop reading from a client that does not read: responses to it would pile up."""
        self.writable.clear()
        self.transport.pause_reading()
        self._wait(self.write_stall_s)

    def resume_writing(self) -> None:
        self.writable.set()
        self.transport.resume_reading()
        self._wait_idle()

    def data_received(self, data: bytes) -> None:
        """Receive bytes. A protocol violation or excessive load ends the connection."""
        self.budget.refill(self.loop.time())
        self.unfinished += len(data)
        try:
            events = self.state.receive_data(data)
            self.unfinished = 0 if events else self.unfinished
            for event in events:
                self.handle(event)
        except DenialOfServiceError:
            self.flush()
            self.close(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        except H2Error:
            self.flush()  # sends the frame that names the violation
            self.close(ErrorCodes.PROTOCOL_ERROR)
            return
        if self.budget.is_spent or self.unfinished > _UNFINISHED_LIMIT:
            self.close(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        self.flush()
        self._wait_idle()

    def handle(self, event: Event) -> None:
        match event:
            case RequestReceived():
                self.begin(event)
            case DataReceived():
                self.take_data(event)
            case StreamEnded() if (stream := self.streams.get(event.stream_id or 0)) is not None:
                stream.end_body()
            case StreamReset():
                self.budget.spend_reset()
                if (stream := self.streams.get(event.stream_id or 0)) is not None:
                    stream.abandon()
            case WindowUpdated():
                self.budget.spend()
                self.open_windows(event.stream_id or 0)
            case RemoteSettingsChanged():
                self.budget.spend()
                self.open_windows(0)  # a changed initial window also applies to open streams
            case ConnectionTerminated():
                self.close(ErrorCodes.NO_ERROR)
            case StreamEnded() | TrailersReceived():
                pass
            case _:
                self.budget.spend()

    def begin(self, event: RequestReceived) -> None:
        number, has_body = event.stream_id or 0, event.stream_ended is None
        if self.running >= MAX_STREAMS:
            self.close(ErrorCodes.ENHANCE_YOUR_CALM)
            return
        if self.is_closing:
            self.reset_stream(number, ErrorCodes.REFUSED_STREAM)
            return
        try:
            fields = [(bytes(name), bytes(value)) for name, value in event.headers or ()]
            head = read_head(fields, has_body=has_body, max_headers=MAX_HEADERS)
        except HeadError:
            self.reset_stream(number, ErrorCodes.PROTOCOL_ERROR)
            return
        self.budget.add_credit(PER_REQUEST)
        scope = {
            **build_scope(self.base, lambda: self.reset_stream(number)),
            "method": head.method, "path": head.path, "raw_path": head.raw_path, "query_string": head.query,
            "headers": head.headers, "state": dict(self.base["state"]),
        }  # fmt: skip
        stream = self.streams[number] = Http2Stream(self, number, scope, has_body=has_body)
        self.running += 1
        task = self.loop.create_task(stream.run(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def take_data(self, event: DataReceived) -> None:
        number, size = event.stream_id or 0, event.flow_controlled_length or 0
        data = event.data or b""
        if not data:
            self.budget.spend()
        if (stream := self.streams.get(number)) is not None:
            stream.receive_data(bytes(data), size)
        else:
            self.acknowledge(number, size)

    def open_windows(self, number: int) -> None:
        """Let streams continue to send: one, or all if the connection's window grew."""
        found = [self.streams[number]] if number in self.streams else [] if number else list(self.streams.values())
        for stream in found:
            stream.window.set()

    # -- the streams' side ------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Wait until the client has read what was sent."""
        await self.writable.wait()

    def send_head(self, number: int, fields: list[tuple[bytes, bytes]]) -> None:
        with suppress(H2Error):  # the client may have cancelled it in data not read yet
            self.state.send_headers(number, fields)
            self.flush()

    def send_data(self, number: int, data: memoryview) -> int:
        """Send as much of a response as the client's windows allow; return the number of bytes."""
        done = 0
        try:
            while done < min(len(data), _PIECE):
                size = min(self.state.local_flow_control_window(number), self.state.max_outbound_frame_size)
                if size <= 0:
                    break
                self.state.send_data(number, bytes(data[done : done + size]))
                self.budget.add_credit(PER_DATA_FRAME)
                done += size
        except H2Error:  # the client cancelled it in an event not handled yet
            self.abandon(number)
        self.flush()
        return min(done, len(data))

    def end(self, number: int, *, unread: bool) -> None:
        """End a response; the rest of the request's body is not read."""
        with suppress(H2Error):
            self.state.end_stream(number)
            if unread:
                self.state.reset_stream(number, ErrorCodes.NO_ERROR)
        self.flush()

    def acknowledge(self, number: int, size: int) -> None:
        """Extend the client's windows by the bytes that were read."""
        if size and not self.transport.is_closing():
            with suppress(H2Error):
                self.state.acknowledge_received_data(size, number)
            self.flush()

    def reset_stream(self, number: int, code: ErrorCodes = ErrorCodes.INTERNAL_ERROR) -> None:
        """Reset one stream, which tells the client that its response is incomplete."""
        with suppress(H2Error):
            self.state.reset_stream(number, code)
        self.flush()
        self.abandon(number)

    def abandon(self, number: int) -> None:
        """Discard a stream's response."""
        if (stream := self.streams.get(number)) is not None:
            stream.abandon()

    def forget(self, stream: Http2Stream) -> None:
        self.running -= 1
        self.server_state.total_requests += 1
        if self.streams.pop(stream.number, None) is not None:
            self.acknowledge(stream.number, stream.unacknowledged)
        if self.is_closing and not self.running:
            self.transport.close()
        self._wait_idle()

    # -- both ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        if (data := self.state.data_to_send()) and not self.transport.is_closing():
            self.transport.write(data)

    def close(self, code: ErrorCodes) -> None:
        with suppress(H2Error):
            self.state.close_connection(code)
        self.flush()
        self.is_closing = True
        for stream in list(self.streams.values()):
            stream.abandon()
        self.transport.close()

    def shutdown(self) -> None:
        """Shut down gracefully: running responses may end. Called by uvicorn."""
        with suppress(H2Error):
            self.state.close_connection()
        self.flush()
        self.is_closing = True
        if not self.running:
            self.transport.close()

    def _wait_idle(self) -> None:
        if not self.writable.is_set():
            return
        if self.running or self.is_closing:
            self._stop_waiting()
        else:
            self._wait(IDLE_TIMEOUT_S)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self.timer = self.loop.call_later(seconds, self.time_out)

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def time_out(self) -> None:
        """Disconnect a client that sends nothing or reads nothing."""
        self.timer = None
        if self.writable.is_set():
            self.close(ErrorCodes.NO_ERROR)
        else:
            self.transport.abort()


def _new_state() -> H2Connection:
    state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
    limits = {
        SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
        SettingCodes.MAX_HEADER_LIST_SIZE: HEAD_LIMIT,
        SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
        SettingCodes.ENABLE_PUSH: 0,
    }
    state.local_settings = Settings(client=False, initial_values={**limits})
    state.decoder.max_header_list_size = HEAD_LIMIT
    return state


def _build_base_scope(first: Protocol) -> Scope:
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": first.asgi_version, "spec_version": "2.3"}, "http_version": "2",
        "server": first.server, "client": first.client, "scheme": "https", "root_path": "",
        "state": first.app_state.copy(),
    }  # fmt: skip
    return scope


class NegotiatedProtocol(Protocol):
    """A TLS connection, which speaks the protocol that ALPN chose."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start HTTP/2 if ALPN chose it."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if transport.is_closing() or tls is None or tls.selected_alpn_protocol() != "h2":
            return
        self.stop_waiting()
        self.writes.stop()
        self.connections.discard(self)
        protocol = Http2Connection(self)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
