"""One request of an HTTP/2 connection, as ASGI defines it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from starlette.types import ASGIApp, Message, Scope

from hotdesk.api.http.http2.heads import write_head
from hotdesk.api.http.protocol import BODY_TIMEOUT_S, is_aimed
from hotdesk.api.http.write_watch import WRITE_PROGRESS
from hotdesk.api.log import LOG

if TYPE_CHECKING:
    from hotdesk.api.http.http2.connection import Http2Connection

_ERROR = b"Internal Server Error"


class Http2Stream:
    def __init__(self, connection: Http2Connection, number: int, scope: Scope, *, has_body: bool) -> None:
        self.connection = connection
        self.number = number
        self.scope = scope
        self.is_aimed = is_aimed(scope["headers"])
        """Whether a sandbox reads the body, which may take any time."""
        self.body = bytearray()
        self.unacknowledged = 0
        """Bytes of the body for which the client's window has not been extended yet."""
        self.more_body = has_body
        self.is_read = False
        """Whether the application has received all of the body."""
        self.changed = asyncio.Event()
        """Set when there is something to read, or reading has ended."""
        self.window = asyncio.Event()
        """Set when the client's window may allow sending more."""
        self.accepted = 0
        """Bytes that the client accepted since its patience was renewed."""
        self.patience_s = connection.write_stall_s
        """Seconds that responses may still wait for the client until it has accepted `WRITE_PROGRESS` bytes."""
        self.is_gone = False
        """Whether the client cancelled the request, or was disconnected."""
        self.has_started = False
        self.is_complete = False

    # -- the connection's side ---------------------------------------------------------------------------------

    def receive_data(self, data: bytes, size: int) -> None:
        """Store a piece of the body; the client's window is extended once the application has read it."""
        if self.is_complete or self.is_gone:
            self.connection.acknowledge(self.number, size)
            return
        self.body += data
        self.unacknowledged += size
        self.changed.set()

    def end_body(self) -> None:
        self.more_body = False
        self.changed.set()

    def abandon(self) -> None:
        """End the request: the client is gone."""
        self.is_gone = True
        self.changed.set()
        self.window.set()

    # -- the application's side ---------------------------------------------------------------------------------

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except Exception as e:  # noqa: BLE001 - the rim: a defect in one answer ends no other
            LOG.report_error(e)
            if not self.has_started:
                await self.send({"type": "http.response.start", "status": 500, "headers": []})
                await self.send({"type": "http.response.body", "body": _ERROR})
        finally:
            if not self.is_complete:
                self.connection.reset_stream(self.number)
            self.connection.forget(self)

    async def receive(self) -> Message:
        while not (self.body or self.is_gone or self.is_complete):
            if not (self.more_body or self.is_read):
                self.is_read = True
                return {"type": "http.request", "body": b"", "more_body": False}
            self.changed.clear()
            await self._wait_for_client()
        if self.is_gone or self.is_complete:
            return {"type": "http.disconnect"}
        data, size = bytes(self.body), self.unacknowledged
        self.body.clear()
        self.unacknowledged = 0
        self.connection.acknowledge(self.number, size)
        self.is_read = not self.more_body
        return {"type": "http.request", "body": data, "more_body": self.more_body}

    async def _wait_for_client(self) -> None:
        """Wait for more of the body, or for the end of the request; reset the stream if the body does not arrive."""
        seconds = BODY_TIMEOUT_S if self.more_body and not self.is_aimed else None
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            self.connection.reset_stream(self.number)

    async def send(self, message: Message) -> None:
        await self.connection.drain()
        if self.is_gone:
            return
        if not self.has_started:
            self.has_started = True
            fields = write_head(message["status"], message.get("headers", ()))
            self.connection.send_head(self.number, fields)
            return
        body = b"" if self.scope["method"] == "HEAD" else message.get("body", b"")
        await self._send_body(memoryview(body))
        if not message.get("more_body", False) and not self.is_gone:
            self.is_complete = True
            self.connection.end(self.number, unread=self.more_body)
            self.changed.set()

    async def _send_body(self, body: memoryview) -> None:
        """Send bytes as the client's window allows; reset the stream if it allows too few for too long."""
        while body and not self.is_gone:
            self.window.clear()
            done = self.connection.send_data(self.number, body)
            body = body[done:]
            self.accepted += done
            if self.accepted >= WRITE_PROGRESS:
                self.accepted, self.patience_s = 0, self.connection.write_stall_s
            if not done:
                await self._wait_for_window()
            await self.connection.drain()

    async def _wait_for_window(self) -> None:
        """Wait until the client may accept more. Waiting for little, again and again, uses up its patience, too."""
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self.patience_s):
                await self.window.wait()
        except TimeoutError:
            self.connection.reset_stream(self.number)
        self.patience_s -= asyncio.get_running_loop().time() - begun


def build_scope(base: Scope, reset: Callable[[], None]) -> Scope:
    """Add the functions that an application may call: `reset` cuts the stream; `take` fails with HTTP/2."""
    return {**base, "extensions": {"hotdesk.reset": reset, "hotdesk.take": _refuse_take}}


def _refuse_take() -> NoReturn:
    """Refuse to hand over a connection, because other requests use it."""
    raise RuntimeError("an HTTP/2 connection cannot be handed over: other requests use it")
