"""Test of a server with a slow resolver: it answers other requests meanwhile, and nothing blocks its event loop."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from hotdesk.door.policy.lookups import RETRY_SECONDS
from tests.e2e.server.conftest import served

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
SILENT = "127.77.0.1"
ATTEMPT_S = 1
CONFIG = '[serve]\negress = "packages"\nready = {}\n'


@contextmanager
def silent_resolver(folder: Path) -> Iterator[tuple[list[str], socket.socket]]:
    """Yield the command prefix that runs a program with a name server that never answers, and that server's socket."""
    told = folder / "resolv.conf"
    told.write_text(f"nameserver {SILENT}\noptions timeout:{ATTEMPT_S} attempts:1\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((SILENT, 53))
        sock.setblocking(False)
        line = f'mount --bind {told} /etc/resolv.conf && exec "$@"'
        yield ["unshare", "--mount", "sh", "-c", line, "sh"], sock


def count_queries(sock: socket.socket) -> int:
    """Return how many queries have come since the last call."""
    count = 0
    with suppress(BlockingIOError):
        while sock.recv(512):
            count += 1
    return count


def ask_until_done(url: str, order: Future[httpx.Response]) -> int:
    """Make other requests until one is answered; return their number. The server itself reports slow callbacks."""
    count = 0
    with httpx.Client(base_url=url, timeout=60) as client:  # one connection: a new client takes longer than a request
        while not order.done():
            assert client.get("/health").status_code == 200
            count += 1
    return count


def test_a_slow_resolver_delays_no_other_request(home: Path, tmp_path: Path) -> None:
    """The names of a sandbox's presets were looked up at the start; a desk with another preset waits for its names."""
    begun = time.monotonic()
    with (
        silent_resolver(tmp_path) as (through, resolver),
        served(home / f"serve-{time.monotonic_ns()}", config=CONFIG, through=through) as server,
        httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        assert count_queries(resolver) > 0
        time.sleep(2 * ATTEMPT_S)  # the resolver's library repeats its last queries
        count_queries(resolver)
        for network in ({}, {"allowOut": ["8.8.8.8"]}):
            order = threads.submit(client.post, "/sandboxes", json={"templateID": "base", "network": network})
            ask_until_done(server.url, order)
            made = order.result()
            assert made.status_code == 201, made.text
            # on a slow machine the failed lookups may be due for their next attempt, which nobody waits for
            assert count_queries(resolver) == 0 or time.monotonic() - begun > RETRY_SECONDS
            assert client.delete(f"/sandboxes/{made.json()['sandboxID']}").status_code == 204
        order = threads.submit(client.post, "/api/v1/desks", json={"image": "base", "allow": ["github-read"]})
        assert ask_until_done(server.url, order) > 3
        assert count_queries(resolver) > 0
        answer = order.result()
        if answer.status_code == 201:
            assert client.delete(f"/api/v1/desks/{answer.json()['id']}").status_code == 204
