"""The baseline of the door's latency: one process that terminates TLS and opens it again, and copies bytes unread."""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import cast

import uvloop


class Side(asyncio.Protocol):
    """One end of a connection; it sends its input to the other end."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.other: Side | None = None
        self.early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.early += data
        else:
            self.other.transport.write(data)

    def join(self, other: Side) -> None:
        """Send all input to another end."""
        self.other = other
        if self.early:
            other.transport.write(self.early)

    def connection_lost(self, _why: Exception | None) -> None:
        """Close both ends."""
        if self.other is not None:
            self.other.transport.close()


class Outer(Side):
    """The client's end: connects to the upstream when a client connects."""

    def __init__(self, port: int, name: str, trust: ssl.SSLContext) -> None:
        super().__init__()
        self.to = port, name, trust

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.dialling = asyncio.get_running_loop().create_task(self.dial())

    async def dial(self) -> None:
        port, name, trust = self.to
        loop = asyncio.get_running_loop()
        _, inner = await loop.create_connection(Side, "127.0.0.1", port, ssl=trust, server_hostname=name)
        inner.join(self)
        self.join(inner)


async def serve(chain: str, ca: str, port: str, name: str) -> None:
    """Serve until standard input ends."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(chain)
    trust = ssl.create_default_context(cafile=ca)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Outer(int(port), name, trust), "127.0.0.1", 0, ssl=ours)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(serve(*sys.argv[1:]))
