"""A fast HTTPS server for doors to reach: sends clients with the token 1 KB, or as many bytes as requested."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from typing import cast

import uvloop

ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: application/json\r\n"
    b"Cache-Control: no-store\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: %d\r\n\r\n"
)
SMALL = ANSWER % 1024 + b'{"items": [' + b'{"name": "desk", "number": 17}, ' * 31 + b'{"last": 1234567890}]'.ljust(21)
REFUSED = b"HTTP/1.1 401 No Token\r\nContent-Length: 0\r\n\r\n"
BLOCK = os.urandom(256 << 10)


class Talk(asyncio.Protocol):
    """A connection."""

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.transport: asyncio.Transport
        self.buffer = b""
        self.expected = 0
        """Bytes of a request body still to come."""
        self.owed = 0
        """Bytes of an answer still to be sent."""
        self.full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        if self.expected:
            self.expected -= len(data)
            if not self.expected:
                self.transport.write(SMALL)
            return
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head, self.buffer = self.buffer[:end], self.buffer[end + 4 :]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        if b"Bearer " + self.token not in head:
            self.transport.write(REFUSED)
        elif head.startswith(b"POST "):
            size = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            self.expected = int(size.split(b":")[1]) - len(self.buffer)
            self.buffer = b""
        elif head.startswith(b"GET /data/flood/"):
            self.owed = int(head[len(b"GET /data/flood/") :].split(b" ")[0])
            self.transport.write(ANSWER % self.owed)
            self.pour()
        else:
            self.transport.write(SMALL)

    def pour(self) -> None:
        """Send the rest of the answer, as fast as the client reads."""
        while self.owed and not self.full:
            size = min(self.owed, len(BLOCK))
            self.owed -= size
            self.transport.write(BLOCK[:size])

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.pour()


async def serve(chain: str, token: str) -> None:
    """Serve until standard input ends."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    context.set_alpn_protocols(["http/1.1"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Talk(token.encode()), "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    assert len(SMALL) == len(ANSWER % 1024) + 1024, len(SMALL)
    uvloop.run(serve(*sys.argv[1:]))
