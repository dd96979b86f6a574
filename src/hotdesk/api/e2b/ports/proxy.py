"""Reverse proxy for a port of a desk: HTTP and WebSocket, parsed and rewritten in both directions.

Nothing is forwarded that was not understood: each side has one framing, which the other cannot choose. Each connection
into the desk carries one request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field

import anyio
import anyio.lowlevel
from starlette.types import Receive, Send

from hotdesk.api.e2b.ports.headers import Inward, build_outward_headers, format_upgrade
from hotdesk.api.http.write_watch import RESET
from hotdesk.dataclass import dataclass
from hotdesk.door.http.framing import (
    LAST,
    BodyReader,
    HttpMessageError,
    Response,
    encode_chunk,
    find_end,
    parse_response,
)
from hotdesk.linux.sockets import receive, send

READ = 64 << 10
_PIECE = 256 << 10
"""Bytes of a response that are read at a time: each piece is encrypted and sent as one."""
_INTERIM = 16
"""Interim responses (1xx) that are skipped."""
_HIGHEST = 599

Take = Callable[[], tuple[asyncio.StreamReader, asyncio.StreamWriter]]


@dataclass(slots=True)
class Passing:
    """One request on its way in, and its response on its way out."""

    request: Inward
    sock: socket.socket
    """The connection to the server inside."""
    receive: Receive
    send: Send
    take: Take
    reset: Callable[[], None]
    """Cuts the caller's connection, so that an interrupted response does not look complete."""
    begun: bool = False
    """Whether the caller has received anything."""
    rest: bytes = b""
    """Bytes that were read beyond the head of the response."""
    broken: list[str] = field(default_factory=list)

    async def run(self) -> str:
        """Forward the request; return why there was no response, or an empty string."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.feed, tasks.cancel_scope)
            try:
                await self.answer()
            except HttpMessageError as e:
                self.broken.append(e.reason)
            except OSError as e:
                self.broken.append(e.strerror or "the program on this port closed the connection")
            tasks.cancel_scope.cancel()
        if self.begun and self.broken:
            self.reset()
        return "" if self.begun or not self.broken else self.broken[0]

    # -- in ---------------------------------------------------------------------------------------------------

    async def feed(self, scope: anyio.CancelScope) -> None:
        """Send the request in, then wait until the caller disconnects, after which no response is needed."""
        with suppress(OSError):  # a server may respond and close the connection before it has read everything
            await send(self.sock, self.request.head)
            more = bool(self.request.body)
            while more:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    scope.cancel()
                    return
                more = message.get("more_body", False)
                await send(self.sock, self.frame_body(message.get("body", b"")))
            await send(self.sock, LAST if self.request.body == "chunked" else b"")
        while (await self.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    def frame_body(self, data: bytes) -> bytes:
        """Frame bytes of the body as the request's head declares."""
        return encode_chunk(data) if self.request.body == "chunked" else data

    # -- out --------------------------------------------------------------------------------------------------

    async def answer(self) -> None:
        response = await self.read_response()
        if response.status == 101:
            await self.switch(format_upgrade(response, self.request.accept))
            return
        self.begun = True
        await self.send(
            {"type": "http.response.start", "status": response.status, "headers": build_outward_headers(response)}
        )
        reader, data = BodyReader(response.body), self.rest
        while not reader.done:
            found, _ = reader.feed(data)
            if found:
                await self.send({"type": "http.response.body", "body": found, "more_body": True})
            if not reader.done and not (data := await _receive_in_turn(self.sock)):
                reader.feed_eof()
        await self.send({"type": "http.response.body", "body": b""})

    async def read_response(self) -> Response:
        """Read the head of the response, and skip interim ones."""
        for _ in range(_INTERIM):
            response = parse_response(await self.read_head(), self.request.method)
            if response.status >= 200 or (response.status == 101 and self.request.accept):
                if response.status > _HIGHEST:
                    raise HttpMessageError(502, "the response of the program on this port has no valid status code")
                return response
        raise HttpMessageError(
            502, f"the program on this port sent {_INTERIM} responses with a 1xx status and no final one"
        )

    async def read_head(self) -> bytes:
        buffer, searched = bytearray(self.rest), 0
        while (end := find_end(buffer, searched)) < 0:
            searched = len(buffer)
            if not (data := await _receive_in_turn(self.sock)):
                raise HttpMessageError(502, "the program on this port closed the connection without a response")
            buffer += data
        self.rest = bytes(buffer[end:])
        return bytes(buffer[:end])

    async def switch(self, head: bytes) -> None:
        """Pass bytes both ways. If a stream breaks off, both sides get a reset: after an end it would look whole."""
        reader, writer = self.take()
        self.begun = True
        try:
            writer.write(head + self.rest)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.relay_in, reader, tasks.cancel_scope)
                await self.relay_out(reader, writer, tasks.cancel_scope)
        finally:
            if self.broken:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                self.reset()
            writer.close()

    async def relay_in(self, reader: asyncio.StreamReader, scope: anyio.CancelScope) -> None:
        """Forward bytes into the desk until either side ends; then end both."""
        try:
            while data := await reader.read(READ):
                await send(self.sock, data)
                await anyio.lowlevel.checkpoint()
        except OSError as e:
            self.broken.append(f"interrupted: {e}")
        scope.cancel()

    async def relay_out(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, scope: anyio.CancelScope
    ) -> None:
        """Forward bytes out of the desk until either side ends; then end both."""
        try:
            while data := await _receive_in_turn(self.sock):
                writer.write(data)
                if not await _drain(reader, writer):
                    break
        except OSError as e:
            self.broken.append(f"interrupted: {e}")
        scope.cancel()


async def _drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Wait until the caller accepts more; return `False` if it is gone after it ended its direction in order."""
    try:
        await writer.drain()
    except OSError:
        if not reader.at_eof():
            raise
        return False
    return True


async def _receive_in_turn(sock: socket.socket) -> bytes:
    """Read what is there, after other tasks had a turn: a server inside may never stop sending."""
    await anyio.lowlevel.checkpoint()
    return await receive(sock, _PIECE)
