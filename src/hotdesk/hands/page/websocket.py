"""A WebSocket that carries a byte stream in both directions."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping

import anyio
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from hotdesk.linux.sockets import receive, send

MAX_MESSAGE_BYTES = 1 << 20
PLAIN = Subprotocol("binary")
"""The subprotocol that the server accepts; a browser also offers its handle, which is not sent back."""

_CARRYING = (Opcode.BINARY, Opcode.CONT)
"""Frames that carry bytes of the stream."""


class BrowserSocket:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.protocol = ServerProtocol(subprotocols=[PLAIN], max_size=MAX_MESSAGE_BYTES)
        self.writing = anyio.Lock()

    async def begin(self, path: str, headers: Mapping[str, str]) -> bool:
        """Answer the browser's request; return whether it was one for a WebSocket."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.protocol.receive_data(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        for event in self.protocol.events_received():
            if isinstance(event, Request):
                response = self.protocol.accept(event)
                self.protocol.send_response(response)
                await self.flush()
                return response.status_code == 101
        return False

    async def receive(self) -> bytes | None:
        """Return the next bytes from the browser, or `None` when it disconnected."""
        while True:
            data = await receive(self.sock)
            if data:
                self.protocol.receive_data(data)
            else:
                self.protocol.receive_eof()
            frames = [event for event in self.protocol.events_received() if isinstance(event, Frame)]
            await self.flush()
            if payload := b"".join(frame.data for frame in frames if frame.opcode in _CARRYING):
                return payload
            if not data or self.protocol.close_expected():
                return None

    async def send(self, data: bytes) -> None:
        if self.protocol.state is State.OPEN:
            self.protocol.send_binary(data)
            await self.flush()

    async def close(self) -> None:
        if self.protocol.state is State.OPEN:
            self.protocol.send_close()
            await self.flush()

    async def flush(self) -> None:
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
        await relay(far, browser.receive, browser.send)
        await browser.close()
    except* (OSError, WebSocketException):
        pass  # either side disconnected
    finally:
        anyio.notify_closing(far)


async def relay(
    far: socket.socket, hear: Callable[[], Awaitable[bytes | None]], say: Callable[[bytes], Awaitable[None]]
) -> None:
    """Pass bytes between a stream and the functions `hear` and `say`, until either ends."""

    async def show() -> None:
        while data := await receive(far):
            await say(data)
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(show)
        while (data := await hear()) is not None:
            await send(far, data)
        tasks.cancel_scope.cancel()
