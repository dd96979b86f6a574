"""The door's own echo server, in memory: it repeats what it received, to prove what leaves and what returns.

It is reached over a socket pair without TLS, because both ends are in this process. It answers only `GET /canary`, and
its response contains nothing but what the request brought.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from typing import cast

from hotdesk.door import canary
from hotdesk.door.http import framing
from hotdesk.door.http.wire import Wire

SAID = b"X-Canary"
DIGEST = b"X-Canary-Digest"
SCHEME = b"Bearer "


class Echo(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer each complete request; close the connection on malformed HTTP."""
        self.buffer += data
        try:
            while self.buffer and (end := framing.find_end(self.buffer)) >= 0:
                request = framing.parse_request(bytes(self.buffer[:end]))
                del self.buffer[:end]
                self.transport.write(answer(request))
        except framing.HttpMessageError:
            self.transport.close()


def answer(request: framing.Request) -> bytes:
    """Return the received token: as it is, in base64, and its digest."""
    brought = request.headers.get(b"authorization") or b""
    if (request.method, request.target, request.body) != ("GET", canary.PATH.encode(), None) or SCHEME not in brought:
        return framing.format_response_head(404, b"Not Found", framing.Headers(((b"Content-Length", b"0"),)))
    value = brought.partition(SCHEME)[2]
    body = value + b"\n" + base64.b64encode(value) + b"\n"
    headers = (
        (SAID, value),
        (DIGEST, hashlib.sha256(value).hexdigest().encode()),
        (b"Content-Length", str(len(body)).encode()),
    )
    return framing.format_response_head(200, b"OK", framing.Headers(headers)) + body


async def connect() -> Wire:
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    await loop.connect_accepted_socket(Echo, far)
    _, wire = await loop.connect_accepted_socket(Wire, near)
    return wire
