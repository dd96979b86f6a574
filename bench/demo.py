"""The demo as `make demo` runs it: how much of its time is hotdesk's own, and how much is tools and checks."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import anyio
from bench.book import Book

RUN = Path(__file__).resolve().parents[1] / "examples/audit/run.py"
SEED = 7
SECONDS = 900.0
OWN, WHOLE = "demo: % of its time that is hotdesk's own", "demo: s from no invoices to the judge's word"
ALL = re.compile(r"([\d.]+) s in all")
PART = re.compile(r"hotdesk itself ([\d.]+) s")


async def measure(home: Path, book: Book) -> None:
    with anyio.fail_after(SECONDS):
        done = await anyio.run_process(
            [sys.executable, str(RUN), "--out", str(home / "out"), "--seed", str(SEED)], check=False
        )
    said = done.stderr.decode(errors="replace")
    whole, part = ALL.search(said), PART.search(said)
    if done.returncode or whole is None or part is None:
        raise RuntimeError(f"the demo ended with exit code {done.returncode}: {said[-300:]}")
    book.facts[WHOLE], book.facts[OWN] = float(whole[1]), 100 * float(part[1]) / float(whole[1])
