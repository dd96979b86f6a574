"""Test of 10,000 mixed calls of the SDK on a machine with more work than processors: none gets a server error."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from e2b import AsyncSandbox

from tests.e2e.server.conftest import Served, served

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(3000)]
CALLS = 10_000
CALLERS = 8
LIVES = 100
"""Calls into one sandbox before its caller opens another."""
BUSY = "while True: pass"
COUNTED = re.compile(r'hotdesk_requests_total\{.*?status="([0-9a-z]+)".*\} ([0-9.e+]+)')
"""One line of the metrics; a route in it may have braces, too."""


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Served]:
    quota = "[serve.quota]\ndesks = 100\nrate = 10000\ncalls = 10000\n"
    with served(home / f"stress-{time.monotonic_ns()}", config=f"[serve]\n{quota}") as found:
        yield found


@pytest.fixture
def busy() -> Iterator[None]:
    """Have twice as many programs running as there are processors, counting those of others."""
    others = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]) - 1
    missing = max(0, 2 * (os.cpu_count() or 1) - others)
    programs = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(missing)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


async def use(sandbox: AsyncSandbox, server: Served, pick: random.Random, number: int) -> str:
    """Make one random call; return its name."""
    kind = pick.choice(("run", "run", "write", "read", "list", "info", "timeout", "metrics", "exists", "listed"))
    match kind:
        case "run":
            assert (await sandbox.commands.run(f"echo {number}", timeout=120)).stdout == f"{number}\n"
        case "write":
            await sandbox.files.write(f"{number % 7}.txt", "x" * pick.randrange(1, 100_000))
        case "read":
            assert await sandbox.files.read("kept.txt") == "kept"
        case "list":
            assert any(each.name == "kept.txt" for each in await sandbox.files.list("."))
        case "info":
            assert (await sandbox.get_info()).sandbox_id == sandbox.sandbox_id
        case "timeout":
            await sandbox.set_timeout(600)
        case "metrics":
            await sandbox.get_metrics()
        case "exists":
            assert not await sandbox.files.exists("nowhere")
        case "listed":
            assert await AsyncSandbox.list(limit=5, **server.e2b).next_items()
    return kind


async def call_often(server: Served, seed: int, count: int, done: Counter[str]) -> None:
    pick = random.Random(seed)
    for first in range(0, count, LIVES):
        sandbox = await AsyncSandbox.create(timeout=600, request_timeout=120, **server.e2b)
        await sandbox.files.write("kept.txt", "kept")
        for number in range(first, min(first + LIVES - 3, count)):
            done[await use(sandbox, server, pick, number)] += 1
        assert await sandbox.kill()
        done["create"] += 3


async def test_ten_thousand_calls_on_a_busy_machine_have_no_error(server: Served, busy: None) -> None:
    done: Counter[str] = Counter()
    async with anyio.create_task_group() as tasks:
        for seed in range(CALLERS):
            tasks.start_soon(call_often, server, seed, CALLS // CALLERS, done)
    assert done.total() >= CALLS - CALLERS * LIVES
    async with httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": server.key}, timeout=60) as client:
        text = (await client.get("/metrics")).text
    counted: Counter[str] = Counter()
    for status, number in COUNTED.findall(text):
        counted[status] += int(float(number))
    assert counted.total() >= done.total(), counted
    assert counted["5xx"] == 0, counted
