"""Tests of twenty invoices at real desks behind the real door, killed and resumed: the same cells, one confirmation."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from examples import trial
from examples.twenty import pdfs, run
from examples.twenty.supplier import HOST, Supplier, serve_supplier

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Acted, Event, JobEnded, Pending, Planned, Resumed, StepBegun, Summed

pytestmark = pytest.mark.container
HERE = Path(run.__file__).parent
BOOK = "Reconciliation.xlsx"
SECONDS = 100.0
PARTS = ("xl/worksheets/sheet1.xml", "xl/sharedStrings.xml")


@dataclass
class Twenty:
    """One brief in a state directory of its own, with its supplier."""

    home: Path
    supplier: Supplier
    env: dict[str, str] = field(default_factory=dict)
    confirms: bool = True
    """Whether the job's request for the confirmation is approved; otherwise it waits."""

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start `hotdesk` as the leader of a process group."""
        with (self.home / "said").open("ab") as said:
            return subprocess.Popen(
                [*trial.HOTDESK, *argv], env=self.env, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                process_group=0,
            )  # fmt: skip

    def work(self) -> subprocess.Popen[bytes]:
        brief = str(self.home / "brief")
        return self.start("work", brief, "--script", f"{brief}/brain.py", "--out", str(self.home / "out"))

    @property
    def job(self) -> str:
        jobs = self.home / "lib/jobs"
        return next(iter(os.listdir(jobs)), "") if jobs.exists() else ""

    @property
    def events(self) -> list[Event]:
        journal = self.home / "lib/keys" / FILE
        return [row.read_event() for row in read(journal, self.job)] if journal.exists() and self.job else []

    def until(self, working: subprocess.Popen[bytes], holds: Callable[[list[Event]], bool]) -> bool:
        """Answer questions until the events satisfy `holds`; return whether they did before `working` ended."""
        end, looked = time.monotonic() + SECONDS, time.monotonic()
        while working.poll() is None:
            assert time.monotonic() < end, (self.home / "said").read_text()
            if holds(self.events):
                return True
            if time.monotonic() - looked > 1:
                self.answer()
                looked = time.monotonic()
            time.sleep(0.02)
        return False

    def answer(self) -> None:
        """Approve the confirmation and repeating its step, and refuse all else."""
        listed = subprocess.run([*trial.HOTDESK, "approve", "--json"], env=self.env, capture_output=True, check=False)
        for each in json.loads(listed.stdout or b"[]"):
            right = each["kind"] == "repeat" or (HOST in (shown := json.dumps(each)) and "/confirmations" in shown)
            if right and each["kind"] not in ("plan", "repeat") and not self.confirms:
                continue
            word = "approve" if right else "refuse"
            subprocess.run([*trial.HOTDESK, word, each["id"]], env=self.env, capture_output=True, check=False)

    def finish(self, working: subprocess.Popen[bytes]) -> None:
        """Answer until it ends with success."""
        self.until(working, lambda events: False)
        assert working.wait(SECONDS) == 0, (self.home / "said").read_text()

    def kill(self, working: subprocess.Popen[bytes]) -> None:
        os.killpg(working.pid, signal.SIGKILL)
        working.wait(SECONDS)

    @property
    def cells(self) -> list[bytes]:
        with zipfile.ZipFile(self.home / "out" / BOOK) as book:
            return [book.read(part) for part in PARTS if part in book.namelist()]

    def check(self, lives: int) -> None:
        events = self.events
        assert [len(each["orders"]) for each in self.supplier.confirmations] == [pdfs.COUNT - len(pdfs.WRONG)]  # type: ignore[arg-type]
        assert [event.outcome for event in events if isinstance(event, JobEnded)] == ["done"]
        assert len([event for event in events if isinstance(event, Resumed)]) == lives - 1
        done: set[str] = set()
        for event in events:
            assert not (isinstance(event, StepBegun) and event.step in done)
            done |= {event.step} if isinstance(event, Summed) else set()
        argv = [*trial.HOTDESK, "journal", "verify"]
        verified = subprocess.run(argv, env=self.env, capture_output=True, check=False)
        assert verified.returncode == 0, verified.stdout + verified.stderr


@contextmanager
def twenty(settings: Config) -> Iterator[Twenty]:
    home = Path(tempfile.mkdtemp(prefix="twenty-", dir=settings.run.parent))
    home.chmod(0o755)
    shutil.copytree(HERE, home / "brief", ignore=shutil.ignore_patterns("__pycache__"))
    pdfs.write(home / "brief/invoices", 0)
    with serve_supplier(home, secrets.token_urlsafe(32), 0) as supplier:
        env = run.prepare(home, supplier)
        paths = os.pathsep.join(filter(None, sys.path))
        yield Twenty(home, supplier, {**env, "HOTDESK_IMAGES": str(settings.images), "PYTHONPATH": paths})
    shutil.rmtree(home)


def unharmed(settings: Config) -> tuple[list[bytes], int]:
    """Carry the brief out once without a kill; return its cells, and how many events it has."""
    with twenty(settings) as made:
        made.finish(made.work())
        made.check(lives=1)
        return made.cells, len(made.events)


@dataclass(frozen=True, slots=True)
class Life:
    """A job that was killed and resumed."""

    cells: list[bytes]
    """Empty if the job had ended before it was killed."""
    before: list[Event]
    """Its events when it was killed."""
    events: list[Event]

    @property
    def questions(self) -> list[str]:
        return [event.kind for event in self.events[len(self.before) :] if isinstance(event, Pending)]


def die_and_go_on(settings: Config, holds: Callable[[list[Event], Supplier], bool], *, confirms: bool = True) -> Life:
    with twenty(settings) as made:
        made.confirms = confirms
        working = made.work()
        if made.until(working, lambda events: holds(events, made.supplier)):
            made.kill(working)
            made.confirms = True
            before = made.events
            if not any(isinstance(event, JobEnded) for event in before):
                made.finish(made.start("resume", made.job))
                made.check(lives=2)
                return Life(made.cells, before, made.events)
        else:
            assert working.returncode == 0, (made.home / "said").read_text()
        return Life([], made.events, made.events)


def is_waiting_to_confirm(events: list[Event], supplier: Supplier) -> bool:
    return len([event for event in events if isinstance(event, Acted) and event.step == "confirm"]) > 4


def is_confirmed(events: list[Event], supplier: Supplier) -> bool:
    """Return whether the supplier has the confirmation, whether or not the step that made it has ended."""
    return bool(supplier.confirmations)


@pytest.mark.long
def test_killed_while_it_works_or_confirms_the_cells_are_the_same_and_the_confirmation_is_made_once(
    settings: Config,
) -> None:
    place = 20 + int(time.time() // 86400) % 20
    with ThreadPoolExecutor(2) as both:
        waiting = both.submit(die_and_go_on, settings, is_waiting_to_confirm, confirms=False)
        early = both.submit(die_and_go_on, settings, lambda events, supplier: len(events) >= place)
        confirmed = both.submit(die_and_go_on, settings, is_confirmed)
        lives = [waiting.result(), early.result(), confirmed.result()]
    assert lives[0].cells
    assert all(life.cells == lives[0].cells for life in lives)
    assert not any(isinstance(event, Planned) for life in lives for event in life.events[len(life.before) :])
    assert waiting.result().questions == ["repeat"]
    ended = any(isinstance(event, Summed) and event.step == "confirm" for event in confirmed.result().before)
    assert confirmed.result().questions == ([] if ended else ["repeat"])


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_killed_at_every_event_the_brief_continues_to_the_same_cells(settings: Config) -> None:
    cells, count = unharmed(settings)
    for place in range(1, count + 1):
        life = die_and_go_on(settings, lambda events, supplier, place=place: len(events) >= place)  # type: ignore[misc]
        assert life.cells in (cells, []), f"killed at event {place}"
