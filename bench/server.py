"""The server with E2B's own SDK: a sandbox's life, a burst of sandboxes, many streams at once, the cost of a lookup."""

from __future__ import annotations

import math
import os
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from bench.book import Book, percentile, seconds
from bench.peers import Peers
from bench.server_calls import Calls
from bench.start import HOTDESK
from e2b import AsyncSandbox, Sandbox

from hotdesk.api.keys import ApiKeys

KEPT = 4
"""Desks that the server keeps ready."""
REST = 0.5
"""Seconds without activity before a measurement, once all ready desks are open."""
LIFE, PODMAN = "E2B: create → true → kill", "podman run beside a sandbox"
RESTED_LIFE = "E2B: create → true → kill, after half a second's rest"
LOOKUPS = "E2B: lookups of a sandbox per CPU second"
REQUESTS = 4000
LINES = 500
"""Lines of each stream."""


def answered(size: int) -> str:
    """Return the name of the share of a burst that was created."""
    return f"E2B: burst of {size} creates, % made"


def slowest(size: int) -> str:
    """Return the name of the time of a burst's slower sandboxes."""
    return f"E2B: burst of {size} creates, p95 in seconds"


def claimed(size: int) -> str:
    """Return the name of the time of a burst's slower sandboxes where the server keeps as many desks ready."""
    return f"E2B: burst of {size} creates, as many desks ready, p95 in seconds"


def whole(count: int) -> str:
    """Return the name of the share of streams that lost nothing."""
    return f"E2B: {count} streams at once, % whole"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    key: str
    pid: int
    desks: Path
    ready: int
    """Desks that it keeps ready."""

    @property
    def e2b(self) -> dict[str, Any]:
        """Return the SDK options that make an E2B program use this server."""
        return {"api_key": self.key, "api_url": self.url, "sandbox_url": self.url}

    async def rested(self) -> None:
        """Wait until only the ready desks are open, and no process is busy with them."""
        with anyio.fail_after(60 + self.ready):
            while len(list(self.desks.glob("*"))) != self.ready:  # noqa: ASYNC110 - another process's doing
                await anyio.sleep(0.02)
        await anyio.sleep(REST)


@asynccontextmanager
async def served(home: Path, ready: int = KEPT) -> AsyncIterator[Server]:
    """Run a server with a separate state directory that keeps some desks ready."""
    home.chmod(0o711)
    env = {**os.environ, "HOTDESK_HOME": str(home)}
    key = ApiKeys(home / "lib/serve").make("bench")
    argv = [HOTDESK, "serve", "--port", "0", "--ready", f"base={ready}"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(argv, env=env, stderr=log)
    try:
        while not (url := (home / "log").read_text().partition("\n")[0]):  # noqa: ASYNC110 - another process's doing
            await anyio.sleep(0.05)
        yield Server(url, key, process.pid, home / "run/desks", ready)
    finally:
        process.terminate()
        await anyio.to_thread.run_sync(process.wait, 30)


async def measure(peers: Peers, home: Path, book: Book, *, rounds: int, burst: int, streams: int) -> None:
    async with served(home) as server:
        await lives(server, peers, book, rounds)
        await calls(server, book, rounds)
        book.facts[answered(burst)], book.facts[slowest(burst)] = await crowd(server, burst)
        await listen(server, book, streams)
        await look_up(server, book)
    (home / "burst").mkdir()
    async with served(home / "burst", ready=burst) as server:
        await server.rested()
        _, book.facts[claimed(burst)] = await crowd(server, burst)


async def lives(server: Server, peers: Peers, book: Book, rounds: int) -> None:
    """Time lives of sandboxes alternately with a container's: the first of each three only warms up what has rested.

    The first round only warms caches.
    """
    podman = [*peers.podman(), "true"] if shutil.which("podman") else None
    if podman is None:
        book.lack([PODMAN], "not installed: make bench PEERS=1")
    for number in range(-1, rounds):
        kept = book if number >= 0 else Book()
        await server.rested()
        kept.note(RESTED_LIFE, number, await anyio.to_thread.run_sync(life, server))
        row = [await anyio.to_thread.run_sync(life, server) for _ in range(KEPT - 1)]
        kept.note(LIFE, number, statistics.median(row))
        if podman is not None:
            kept.note(PODMAN, number, await anyio.to_thread.run_sync(seconds, podman))


async def calls(server: Server, book: Book, rounds: int) -> None:
    """Measure lives call by call. The first of each round's three only warms up what has rested."""
    found = Calls(server.pid)
    for _ in range(rounds):
        await server.rested()
        await anyio.to_thread.run_sync(life, server)
        for _ in range(KEPT - 2):
            await anyio.to_thread.run_sync(found.live, server.e2b)
    found.write(book)


def life(server: Server) -> float:
    """Create a sandbox, use it, and kill it."""
    start = time.perf_counter()
    sandbox = Sandbox.create(**server.e2b)
    sandbox.commands.run("true")
    sandbox.kill()
    return time.perf_counter() - start


async def crowd(server: Server, size: int) -> tuple[float, float]:
    """Create many sandboxes at once; return how many percent were made, and the 95th percentile of their times."""
    took: list[float] = []

    async def one() -> None:
        start = time.perf_counter()
        with suppress(Exception):  # a failure lowers the share
            sandbox = await AsyncSandbox.create(request_timeout=120, **server.e2b)
            took.append(time.perf_counter() - start)
            await sandbox.kill()

    async with anyio.create_task_group() as tasks:
        for _ in range(size):
            tasks.start_soon(one)
    return 100 * len(took) / size, percentile(took or [math.inf], 0.95)


async def listen(server: Server, book: Book, count: int) -> None:
    """Follow many programs at once; the output of each must be complete and in order."""
    wanted = "".join(f"{line}\n" for line in range(1, LINES + 1))
    right = 0
    sandboxes = [await AsyncSandbox.create(**server.e2b) for _ in range(8)]

    async def one(number: int) -> None:
        nonlocal right
        heard: list[str] = []
        command = f"for i in $(seq {LINES}); do echo $i; done"
        sandbox = sandboxes[number % len(sandboxes)]
        done = await sandbox.commands.run(command, on_stdout=heard.append, timeout=120, request_timeout=120)
        right += done.stdout == wanted == "".join(heard)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    for sandbox in sandboxes:
        await sandbox.kill()
    book.facts[whole(count)] = 100 * right / count


async def look_up(server: Server, book: Book) -> None:
    """Request one sandbox repeatedly; measure the server's CPU time."""
    sandbox = await AsyncSandbox.create(**server.e2b)
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    told = f"GET /sandboxes/{sandbox.sandbox_id} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {server.key}\r\n\r\n".encode()
    spent = await anyio.to_thread.run_sync(ask, (host, int(port)), told, server.pid)
    await sandbox.kill()
    book.facts[LOOKUPS] = REQUESTS / spent


def ask(address: tuple[str, int], request: bytes, pid: int) -> float:
    """Send a request many times over one connection; return the CPU seconds its server used."""
    with socket.create_connection(address) as sock, sock.makefile("rb") as answers:
        exchange(sock, answers, request, REQUESTS // 10)
        before = cpu_of(pid)
        exchange(sock, answers, request, REQUESTS)
        return cpu_of(pid) - before


def exchange(sock: socket.socket, answers: Any, request: bytes, count: int) -> None:
    """Send a request `count` times, each after the answer to the one before."""
    for _ in range(count):
        sock.sendall(request)
        status, length = answers.readline(), 0
        while (line := answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if b" 200 " not in status or len(answers.read(length)) != length:
            raise RuntimeError(f"a lookup was answered with {status!r}")


def cpu_of(pid: int) -> float:
    """Return the CPU seconds a process has used, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
