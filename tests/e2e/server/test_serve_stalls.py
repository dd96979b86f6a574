"""Test of a server with a slow resolver: it answers other requests meanwhile, and nothing blocks its event loop."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.e2e.server.conftest import served

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]
SILENT = "127.77.0.1"


@contextmanager
def silent_resolver(folder: Path) -> Iterator[list[str]]:
    """Yield the command prefix that runs a program with a name server that never answers."""
    told = folder / "resolv.conf"
    told.write_text(f"nameserver {SILENT}\noptions timeout:3 attempts:1\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((SILENT, 53))
        line = f'mount --bind {told} /etc/resolv.conf && exec "$@"'
        yield ["unshare", "--mount", "sh", "-c", line, "sh"]


def test_a_slow_resolver_delays_no_other_request(home: Path, tmp_path: Path) -> None:
    with (
        silent_resolver(tmp_path) as through,
        served(home / f"serve-{time.monotonic_ns()}", config='[serve]\negress = "deny"\n', through=through) as server,
        httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client,
        ThreadPoolExecutor(1) as threads,
    ):
        order = threads.submit(client.post, "/api/v1/desks", json={"image": "base", "allow": ["github-read"]})
        slowest, asked = 0.0, 0
        while not order.done():
            begun = time.monotonic()
            assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
            slowest, asked = max(slowest, time.monotonic() - begun), asked + 1
        answer = order.result()
        print(f"{asked} calls meanwhile, the slowest {slowest:.3f} s, then {answer.status_code}")
        assert asked > 3
        if answer.status_code == 201:
            assert client.delete(f"/api/v1/desks/{answer.json()['id']}").status_code == 204
