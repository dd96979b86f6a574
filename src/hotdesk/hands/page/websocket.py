"""A WebSocket that carries bytes: what a browser sends goes on as it is, and what comes back goes to it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import anyio
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hotdesk.linux.sockets import receive, send

MOST_MESSAGE = 1 << 20
PLAIN = Subprotocol("binary")
"""The subprotocol that is agreed on; the other one a browser offers is its handle, which is not repeated."""

CARRYING = (Opcode.BINARY, Opcode.CONT)
"""Frames whose bytes are the stream's."""


class BrowserSocket:
    """One browser's WebSocket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.protocol = ServerProtocol(subprotocols=[PLAIN], max_size=MOST_MESSAGE)
        self.writing = anyio.Lock()

    async def begin(self, path: str, headers: Mapping[str, str]) -> bool:
        """Answer the browser's request; say whether it was one for a WebSocket."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.protocol.receive_data(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        for event in self.protocol.events_received():
            if isinstance(event, Request):
                response = self.protocol.accept(event)
                self.protocol.send_response(response)
                await self.flush()
                return response.status_code == 101
        return False

    async def hear(self) -> bytes | None:
        """Give what the browser sent next, together; None when it left."""
        while True:
            data = await receive(self.sock)
            if data:
                self.protocol.receive_data(data)
            else:
                self.protocol.receive_eof()
            frames = [event for event in self.protocol.events_received() if isinstance(event, Frame)]
            await self.flush()
            if said := b"".join(frame.data for frame in frames if frame.opcode in CARRYING):
                return said
            if not data or self.protocol.close_expected():
                return None

    async def say(self, data: bytes) -> None:
        """Send the browser bytes, unless it is leaving; none: the end."""
        if self.protocol.state is State.OPEN:
            if data:
                self.protocol.send_binary(data)
            else:
                self.protocol.send_close()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits, in order."""
        async with self.writing:
            for data in self.protocol.data_to_send():
                if data:
                    await send(self.sock, data)
                else:
                    self.sock.shutdown(socket.SHUT_WR)


async def carry(sock: socket.socket, far: socket.socket, path: str, headers: Mapping[str, str]) -> None:
    """Carry bytes between a browser and a stream until either ends."""
    browser = BrowserSocket(sock)
    if not await browser.begin(path, headers):
        return
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show, far, browser, tasks.cancel_scope)
            while (said := await browser.hear()) is not None:
                await send(far, said)
            tasks.cancel_scope.cancel()
    except* (OSError, WebSocketException):
        pass  # either is gone
    finally:
        anyio.notify_closing(far)


async def show(far: socket.socket, browser: BrowserSocket, scope: anyio.CancelScope) -> None:
    """Give the browser what the stream says; its end closes the WebSocket."""
    while data := await receive(far):
        await browser.say(data)
    await browser.say(b"")
    scope.cancel()
