"""Tests of sandboxes that are killed, paused and resumed during requests into them: the server never fails."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute, SocketStream

from hotdesk.desk.keeper.state import read_facts
from tests.e2e.server.conftest import Served
from tests.e2e.server.envd_raw import envelope

pytestmark = [pytest.mark.container, pytest.mark.anyio, pytest.mark.timeout(1200)]
SANDBOXES = 3
CALLERS = 8
PORT = 8000
INSIDE = r"""
import http.server, socketserver
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for _ in range(1000 if "long" in self.path else 1):
            self.wfile.write(b"x" * 4096)
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()
    def log_message(self, *_): pass
class Many(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    def handle_error(self, *_): pass
Many(("127.0.0.1", 8000), Answer).serve_forever()
"""
EXPECTED = (
    "The sandbox was not found",
    "The sandbox is running but port",
    "could not be read or written: ",
)
"""Expected errors of a request into a sandbox that is not available: 502, with the wording of E2B's own service."""
CONTROL: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "kill": ("DELETE", "", None),
    "pause": ("POST", "/pause", {}),
    "halt": ("POST", "/pause", {"memory": False}),
    "connect": ("POST", "/connect", {"timeout": 60}),
    "reboot": ("POST", "/connect", {"timeout": 60, "memory": False}),
    "timeout": ("POST", "/timeout", {"timeout": 60}),
    "end": ("POST", "/timeout", {"timeout": 0}),
    "measure": ("GET", "/metrics", None),
    "look": ("GET", "", None),
    "network": ("PUT", "/network", {"allow_internet_access": False}),
    "snapshot": ("POST", "/snapshots", {}),
    "fork": ("POST", "/fork", {"timeout": 30}),
}


@dataclass
class Target:
    """A sandbox under test."""

    id: str = ""
    token: str = ""


@dataclass
class Storm:
    """Callers of a server, and the answers they got."""

    server: Served
    client: httpx.AsyncClient
    dice: random.Random
    targets: list[Target] = field(default_factory=lambda: [Target() for _ in range(SANDBOXES)])
    told: Counter[tuple[str, int]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    making: anyio.Lock = field(default_factory=anyio.Lock)

    async def run(self, acts: int, *, costly: bool) -> None:
        """Make so many requests, several at a time; connections are dropped at any moment."""
        choices = ["connect", "connect", *(name for name in CONTROL if costly or name not in ("snapshot", "fork"))]
        left = iter(range(acts))

        async def call() -> None:
            for _ in left:
                target = self.dice.choice(self.targets)
                if self.dice.random() < 0.35:
                    await self.control(target, self.dice.choice(choices))
                else:
                    await self.dice.choice(TRAFFIC)(self, target)

        for target in self.targets:
            await self.make(target)
        async with anyio.create_task_group() as tasks:
            for _ in range(CALLERS):
                tasks.start_soon(call)

    async def make(self, target: Target) -> None:
        more = self.dice.choice(({}, {"autoPause": True}, {"autoPause": True, "autoResume": {"enabled": True}}))
        made = await self.client.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60, **more})
        self.note("make", made.status_code, made.text)
        if made.status_code == 201:
            target.id, target.token = made.json()["sandboxID"], made.json()["envdAccessToken"]
            message = {"process": {"cmd": "/usr/bin/python3", "args": ["-c", INSIDE]}}
            await self.talk(target, "start", self.rpc(target, "Start", message), 0.05)

    async def control(self, target: Target, act: str) -> None:
        """Send a control plane request; a killed sandbox is created again."""
        method, path, body = CONTROL[act]
        with anyio.move_on_after(self.dice.choice((0.002, 0.02, 60, 60, 60))):
            answer = await self.client.request(method, f"/sandboxes/{target.id}{path}", json=body)
            self.note(act, answer.status_code, answer.text)
        async with self.making:
            seen = await self.client.get(f"/sandboxes/{target.id}")
            self.note("look", seen.status_code, seen.text)
            if seen.status_code == 404:
                await self.make(target)
        for each in (await self.client.get("/v2/sandboxes")).json():
            if each["sandboxID"] not in [other.id for other in self.targets] and act == "fork":
                gone = await self.client.delete(f"/sandboxes/{each['sandboxID']}")
                self.note("kill", gone.status_code, gone.text)

    def rpc(self, target: Target, name: str, message: object) -> bytes:
        data = envelope(message)
        return (
            self.head(target, 49983, "POST", f"/process.Process/{name}", len(data), "application/connect+json") + data
        )

    def head(self, target: Target, port: int, method: str, path: str, size: int = 0, kind: str = "text/plain") -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"E2b-Sandbox-Id: {target.id}", f"E2b-Sandbox-Port: {port}",
            f"X-Access-Token: {target.token}", f"Content-Length: {size}", f"Content-Type: {kind}",
        ]  # fmt: skip
        if path == "/upgrade":
            lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def get(self, target: Target) -> None:
        path = self.dice.choice(("/", "/long", "/upgrade"))
        await self.talk(target, path, self.head(target, PORT, "GET", path))

    async def post(self, target: Target) -> None:
        size = self.dice.choice((10, 300_000))
        sent = self.head(target, PORT, "POST", "/", size) + bytes(self.dice.choice((size, size // 2)))
        await self.talk(target, "post", sent)

    async def command(self, target: Target) -> None:
        line = self.dice.choice(("true", "sleep 5", "yes"))
        await self.talk(target, line, self.rpc(target, "Start", {"process": {"cmd": "/bin/sh", "args": ["-c", line]}}))

    async def ask(self, target: Target) -> None:
        path = self.dice.choice(("/process.Process/List", "/filesystem.Filesystem/ListDir"))
        data = b'{"path": "/home/user"}' if "List" in path else b"{}"
        head = self.head(target, 49983, "POST", path, len(data), "application/json")
        await self.talk(target, path, head + data)

    async def upload(self, target: Target) -> None:
        size = self.dice.choice((10, 300_000))
        head = self.head(target, 49983, "POST", "/files?path=note&username=user", size, "application/octet-stream")
        await self.talk(target, "upload", head + bytes(self.dice.choice((size, size // 2))))

    async def download(self, target: Target) -> None:
        await self.talk(target, "download", self.head(target, 49983, "GET", "/files?path=note&username=user"))

    async def talk(self, target: Target, act: str, data: bytes, patience: float | None = None) -> None:
        """Send bytes into a sandbox, read for a moment, and disconnect, sometimes with a reset."""
        moment = self.dice.choice((0.0, 0.003, 0.02, 0.2)) if patience is None else patience
        heard = b""
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream, OSError):
            async with await self.connected() as stream:
                with anyio.move_on_after(moment):
                    await stream.send(data)
                    while not is_whole(heard):
                        heard += await stream.receive()
                if self.dice.random() < 0.5:
                    abort(stream)
        if found := re.match(rb"HTTP/1\.1 (\d+)", heard):
            self.note(act, int(found[1]), heard.decode("latin-1") if is_whole(heard) else EXPECTED[0])

    async def connected(self) -> SocketStream:
        url = httpx.URL(self.server.url)
        return await anyio.connect_tcp(url.host, url.port or 80)

    def note(self, act: str, status: int, body: str) -> None:
        """Record an answer, and as a failure if it must never happen."""
        self.told[act, status] += 1
        if status >= 500 and not (status == 502 and any(each in body for each in EXPECTED)):
            self.failures.append(f"{act}: {status} {body[:200]}")


TRAFFIC: tuple[Callable[[Storm, Target], Awaitable[None]], ...] = (
    Storm.get, Storm.get, Storm.post, Storm.command, Storm.ask, Storm.upload, Storm.download,
)  # fmt: skip


def is_whole(heard: bytes) -> bool:
    head, end, body = heard.partition(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end) and size is not None and len(body) >= int(size[1])


def abort(stream: SocketStream) -> None:
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no database
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def storm(server: Served, acts: int, *, costly: bool) -> None:
    """Run a storm; at the end the server must have logged no error, and all desks due to be burnt must be burnt."""
    seed = random.randrange(1 << 32)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, headers={"X-API-Key": server.key}, timeout=60, limits=limits
    ) as client:
        raged = Storm(server, client, random.Random(seed))
        await raged.run(acts, costly=costly)
        for each in (await client.get("/v2/sandboxes")).json():
            answer = await client.delete(f"/sandboxes/{each['sandboxID']}")
            raged.note("kill", answer.status_code, answer.text)
        for each in (await client.get("/snapshots")).json():
            assert (await client.delete(f"/templates/{each['snapshotID']}")).status_code == 204
    log = server.log.read_text()
    print(f"seed {seed}", *sorted(raged.told.items()), sep="\n")
    assert raged.failures == [], json.dumps(raged.failures, indent=1) + log[-4000:]
    assert [line for line in log.splitlines() if "Error" in line or "Exception" in line] == [], log[-4000:]
    with anyio.fail_after(60):
        while open_desks(server):
            await anyio.sleep(0.1)


def open_desks(server: Served) -> list[str]:
    found = {each.name: read_facts(each) or {} for each in (server.settings.run / "desks").iterdir()}
    return [name for name, told in found.items() if told.get("state") not in ("ready", "opening")]


async def test_a_storm_of_kills_pauses_and_dropped_connections_is_answered(server: Served) -> None:
    await storm(server, 150, costly=False)


@pytest.mark.long
async def test_a_long_storm_of_kills_pauses_forks_and_dropped_connections_is_answered(server: Served) -> None:
    await storm(server, 5000, costly=True)
