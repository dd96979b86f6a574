"""The cost of a job's journal: events appended as a job does, each commit on disk, then verified."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import anyio
from bench.book import Book
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.drive.journal import Journal
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.signing import Signer
from hotdesk.event import Acted, Event, Observed, Thought

COUNT = 10_000
JOB = "i" + "0" * 20
BOTH = "journal: CPU s for 10,000 events appended and verified"
APPEND, VERIFY = "journal: append 10,000", "journal: verify 10,000"


def turn(act: int) -> list[list[Event]]:
    """Return the events of one act of a job, by commit: the intent with its thought, then the result."""
    paper = "ab" * 32
    thought = Thought(JOB, "read", act, "anthropic:model", paper, 1200, 80, 9000, 40960, 950, 0.0123)
    return [[thought, Acted(JOB, "read", act, "shell", paper)], [Observed(JOB, "read", act, "done", 12, paper)]]


def append(journal: Journal) -> None:
    written = act = 0
    while written < COUNT:
        for commit in turn(act):
            for event in commit:
                journal.add(JOB, "owner", event)
            journal.commit()
            written += len(commit)
        act += 1


def measure_once(path: Path, book: Book, number: int) -> float:
    """Append and verify in a file of this round; return the processor time it took.

    Elapsed time is not returned: the disk's time to confirm a write is many times as long.
    """
    signer = Signer(Ed25519PrivateKey.generate())
    journal = Journal(path, signer)
    start, busy = time.perf_counter(), time.process_time()
    append(journal)
    half = time.perf_counter()
    report = verify(path, signer.public)
    used = time.process_time() - busy
    book.note(APPEND, number, half - start)
    book.note(VERIFY, number, time.perf_counter() - half)
    journal.close()
    assert report.events >= COUNT
    assert not report.faults
    return used


async def measure(home: Path, book: Book, rounds: int) -> None:
    folder = home / "keys"
    folder.mkdir(mode=0o700)
    used = [await anyio.to_thread.run_sync(measure_once, folder / f"{n}.db", book, n) for n in range(rounds)]
    book.facts[BOTH] = statistics.median(used)
