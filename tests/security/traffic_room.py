"""A listener on loopback, and behind it a sandbox whose server records what it receives."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import anyio
import uvicorn

from hotdesk.api.e2b.ports.traffic import Traffic
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.http.dispatch import Front, ServerParts
from hotdesk.api.http.protocol import Protocol
from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.config import Config
from hotdesk.desk.seam import Spec
from hotdesk.host import Host
from tests.stall_watch import nothing_stalls

PORT = 8000
SERVER = r"""
import socket, sys, urllib.parse
listener = socket.create_server(("127.0.0.1", 8000), backlog=64)
print("up", flush=True)
while True:
    sock, _ = listener.accept()
    sock.settimeout(1)
    data = b""
    try:
        while part := sock.recv(65536):
            data += part
            if b"\r\n\r\n" in data and not data.startswith(b"POST"): break
    except OSError: pass
    first = data.split(b" ")[1] if b" " in data else b"/"
    said = urllib.parse.unquote_to_bytes(first.partition(b"?say=")[2])
    told = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
    try:
        sock.sendall(said or told)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536): pass
    except OSError: pass
    sock.close()
"""


@dataclass
class House:
    """The existing sandboxes."""

    serving: Serving
    by_id: dict[str, Sandbox] = field(default_factory=dict)

    async def record(self, sandbox: Sandbox) -> None:
        """Record a change of a sandbox: none outlives this server."""


@dataclass
class Ways:
    """A listener, and a sandbox behind it that records what it receives."""

    port: int
    sandbox: Sandbox
    house: House

    @property
    def name(self) -> str:
        return f"{PORT}-{self.sandbox.id}.localhost"

    async def say(self, data: bytes) -> bytes:
        """Send bytes; return everything received, followed by `RESET` if the connection was cut."""
        return await anyio.to_thread.run_sync(say, self.port, data)

    async def get(self, path: str = "/", port: int = PORT, host: str = "", **headers: Any) -> bytes:
        lines = {"Host": host or f"{port}-{self.sandbox.id}.localhost", "Connection": "close"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return await self.say(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())


def say(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=15) as sock:
        heard = b""
        try:
            sock.sendall(data)
            while part := sock.recv(1 << 16):
                heard += part
        except ConnectionResetError:
            heard += b"RESET"
        return heard


@asynccontextmanager
async def opened(
    settings: Config, serving: Serving | None = None, program: str = SERVER, **options: Any
) -> AsyncIterator[Ways]:
    """Run a listener in this process, and a desk with the server behind it; nothing may block the event loop."""
    with nothing_stalls():
        async with _opened(settings, serving or Serving(), program, **options) as ways:
            yield ways


@asynccontextmanager
async def _opened(settings: Config, serving: Serving, program: str, **options: Any) -> AsyncIterator[Ways]:
    async with (
        Host(settings, control=False) as host,
        host.open_desk(Spec()) as desk,
        anyio.create_task_group() as tasks,
    ):
        process = await desk.start(["python3", "-c", program])
        async for _ in process.output():
            break
        now = time.time()
        tenant = cast(Any, SimpleNamespace(name="default", host=host))
        sandbox = Sandbox(desk, tenant, "base", Spec(), CLOSED, "token", now, now + 300)
        house = House(serving, {desk.id: sandbox})
        traffic = Traffic(cast(Sandboxes, house))
        keys = ApiKeys(settings.lib / "serve")
        front = Front(house.serving, ServerParts(*[traffic] * 6), keys, Quotas(), Browsers(keys))
        config = uvicorn.Config(front, http=Protocol, lifespan="off", log_config=None, access_log=False, **options)
        server = uvicorn.Server(config)
        listener = socket.create_server(("127.0.0.1", 0))  # the server closes it
        tasks.start_soon(server.serve, [listener])
        yield Ways(listener.getsockname()[1], sandbox, house)
        server.should_exit = server.force_exit = True
