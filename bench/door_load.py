"""A load generator: keep-alive HTTPS connections from a desk's network namespace, or from the host's.

Warms up, reports that, waits for a line on standard input, works, and prints its results as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import time
from dataclasses import dataclass
from typing import Literal, cast

import uvloop

from hotdesk.linux import syscalls

BLOCK = os.urandom(256 << 10)
HEAD = (
    "{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n"
    "Connection: keep-alive\r\n{}\r\n"
)


@dataclass(frozen=True, slots=True)
class Load:
    """What to request, from which server, and how often."""

    work: Literal["rate", "latency", "up", "down"]
    port: int
    host: str
    """The name and port in the request."""
    proxied: bool = True
    token: str = ""
    netns: str = ""
    """The file of the network namespace to work in; empty for the host's."""
    connections: int = 1
    count: int = 1
    """Requests of all connections together, or bytes."""
    warm: int = 100

    def request(self, first: str, more: str = "") -> bytes:
        """Return a request's head."""
        more += f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return HEAD.format(first, self.host.removesuffix(":443"), more).encode()


class Wire(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.loop = asyncio.get_running_loop()
        self.waiting: asyncio.Future[int] | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.start()

    def start(self) -> None:
        """Clear the last answer."""
        self.head = b""
        self.left: int | None = None
        self.tail = b""
        self.size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Read an answer up to its end."""
        self.size += len(data)
        if self.left is None:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            lines, data = self.head[:end].lower().split(b"\r\n"), self.head[end + 4 :]
            assert lines[0].split(b" ")[1] == b"200", self.head
            told = [line for line in lines if line.startswith(b"content-length:")]
            chunked = b"transfer-encoding: chunked" in lines
            self.left = int(told[0].split(b":")[1]) if told else -1 if chunked else 0
        if self.left < 0:
            self.tail = (self.tail + data)[-5:] if len(data) < 5 else data[-5:]
            done = self.tail == b"0\r\n\r\n"
        else:
            self.left -= len(data)
            done = self.left == 0
        if done and self.waiting is not None:
            self.waiting.set_result(self.size)

    def connection_lost(self, why: Exception | None) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(why or ConnectionResetError("hung up"))

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    async def ask(self, data: bytes) -> int:
        """Send a request; return the size of its answer once it is complete."""
        self.start()
        self.waiting = self.loop.create_future()
        self.transport.write(data)
        return await self.waiting


async def connect(load: Load) -> Wire:
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the client is not what is measured
    context.set_alpn_protocols(["http/1.1"])
    name = load.host.partition(":")[0]
    if not load.proxied:
        return (await loop.create_connection(Wire, "127.0.0.1", load.port, ssl=context, server_hostname=name))[1]
    _, wire = await loop.create_connection(Wire, "127.0.0.1", load.port)
    await wire.ask(f"CONNECT {load.host} HTTP/1.1\r\nHost: {load.host}\r\n\r\n".encode())
    wire.transport = await loop.start_tls(wire.transport, wire, context, server_hostname=name)  # type: ignore[assignment]
    return wire


async def repeat(wire: Wire, request: bytes, count: int) -> list[float]:
    """Repeat a request; return the seconds of each."""
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await wire.ask(request)
        took.append(time.perf_counter() - start)
    return took


async def upload(wire: Wire, load: Load) -> int:
    wire.start()
    wire.waiting = wire.loop.create_future()
    wire.transport.write(load.request("POST /data/sink", f"Content-Length: {load.count}\r\n"))
    left = load.count
    while left:
        await wire.writable.wait()
        wire.transport.write(BLOCK[: min(left, len(BLOCK))])
        left -= min(left, len(BLOCK))
    return await wire.waiting


async def run(load: Load) -> None:
    """Work once a line arrives."""
    wires = [await connect(load) for _ in range(load.connections)]
    request = load.request("GET /data/small")
    await asyncio.gather(*(repeat(wire, request, max(load.warm // len(wires), 1)) for wire in wires))
    print("warm", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    took: list[float] = []
    match load.work:
        case "rate" | "latency":
            each = load.count // len(wires)
            took = [
                one for many in await asyncio.gather(*(repeat(wire, request, each) for wire in wires)) for one in many
            ]
        case "up":
            await upload(wires[0], load)
        case "down":
            size = await wires[0].ask(load.request(f"GET /data/flood/{load.count}"))
            assert size > load.count, size
    told = {"seconds": time.perf_counter() - start}
    if took := sorted(took):
        told |= {"median": took[len(took) // 2], "tenth": took[len(took) // 10]}
    print(json.dumps(told), flush=True)


def main() -> None:
    load = Load(**json.loads(sys.argv[1]))
    if load.netns:
        netns = os.open(load.netns, os.O_RDONLY | os.O_CLOEXEC)
        syscalls.check(syscalls.libc.setns(netns, syscalls.CLONE_NEWNET), "setns")
    uvloop.run(run(load))


if __name__ == "__main__":
    main()
