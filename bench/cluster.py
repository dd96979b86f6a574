"""What tenants, desks, events and `sync` cost a server with nodes: the numbers of `docs/design/036-cluster.md`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
from bench.book import Book

NODES = 2
SIZES = {"parts": 2000, "idle": 20, "desks": 20, "events": 2000, "sync": 50}
"""How many events, tenants, desks, events and requests are measured."""


async def measure(home: Path, book: Book, *, seconds: int, rounds: int) -> None:
    """Run each measurement in a network namespace of its own, so that its connections can be counted."""
    await anyio.to_thread.run_sync(_measure, home, book, seconds, rounds)


def _measure(home: Path, book: Book, seconds: int, rounds: int) -> None:
    home.chmod(0o755)  # the server's user passes through it
    for what, size in SIZES.items():
        place = home / what
        place.mkdir(mode=0o755)
        numbers = map(str, (NODES, size, seconds, rounds))
        argv = ["unshare", "-n", sys.executable, "-m", "bench.cluster_load", str(place), what, *numbers]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        if done.returncode:
            book.lack([f"cluster: {what}"], done.stderr[-300:])
            continue
        facts = json.loads(done.stdout.splitlines()[-1])
        load = facts.pop("load")
        book.facts.update(
            {f"cluster: {name}": value for name, value in facts.items()} | {f"cluster: load, {what}": load}
        )
