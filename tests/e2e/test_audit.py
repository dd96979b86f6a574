"""Tests of the audit as `make demo` runs it: for any seed, exactly the wrong rows are red, and no data leaves."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from examples.audit.truth import Truth

from hotdesk.config import Config
from tests.e2e.conftest import PROGRAM

pytestmark = pytest.mark.container
RUN = Path(__file__).parents[2] / "examples/audit/run.py"
BOOK = "Discrepancy_Report.xlsx"
FEW = 45
"""Invoices, with the odd one among them."""
SECONDS = 150.0
ASKED = re.compile(r"hotdesk approve (\w+)")


@dataclass
class Demo:
    """A folder of results, and a state directory below the session's."""

    out: Path
    env: dict[str, str]

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        with (self.out / "said").open("wb") as said:
            whole = [sys.executable, str(RUN), "--out", str(self.out), *argv]
            return subprocess.Popen(whole, env=self.env, stdin=-3, stdout=said, stderr=said, process_group=0)

    def run(self, *argv: str, seconds: float = SECONDS) -> str:
        """Run `hotdesk` or the demo to a successful end; return its output."""
        running = self.start(*argv)
        try:
            code = running.wait(seconds)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        assert code == 0, self.said
        return self.said

    def resume(self) -> None:
        """Resume after a kill, to a successful end; approve repeating a step whose act was interrupted."""
        running, answered = self.start("--resume"), set[str]()
        end = time.monotonic() + 2 * SECONDS
        try:
            while running.poll() is None and time.monotonic() < end:
                for asked in set(ASKED.findall(self.said)) - answered:
                    answered.add(asked)
                    (home,) = states(self)
                    subprocess.run([PROGRAM, "approve", asked], env={**self.env, "HOTDESK_HOME": str(home)}, check=True)
                time.sleep(0.1)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
        assert running.returncode == 0, self.said

    @property
    def said(self) -> str:
        return (self.out / "said").read_text(errors="replace")

    @property
    def red(self) -> set[str]:
        return set(re.findall(r"^judge: (\S+) is red", self.said, re.MULTILINE))

    @property
    def cells(self) -> bytes:
        with zipfile.ZipFile(self.out / BOOK) as book:
            return book.read("xl/worksheets/sheet2.xml") + book.read("xl/sharedStrings.xml")

    def kill_once(self, running: subprocess.Popen[bytes], said: str) -> None:
        end = time.monotonic() + SECONDS
        while said not in self.said:
            assert running.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@pytest.fixture
def demo(settings: Config, tmp_path: Path) -> Demo:
    home = settings.run.parent
    return Demo(tmp_path, {**os.environ, "HOTDESK_IMAGES": str(settings.images), "TMPDIR": str(home)})


def states(demo: Demo) -> list[Path]:
    return list(Path(demo.env["TMPDIR"]).glob("hotdesk-audit-*"))


@pytest.mark.timeout(360)
def test_the_red_rows_are_the_planted_ones(demo: Demo) -> None:
    said = demo.run("--seed", str(secrets.randbelow(10**6)), "--count", str(FEW))
    assert demo.red == set(Truth.load(demo.out).planted), said
    assert "written script" in said
    assert "The password reached the ERP in 1 request." in said
    assert not states(demo)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_red_rows_follow_what_a_person_breaks(demo: Demo) -> None:
    demo.run("--seed", str(secrets.randbelow(10**6)), "--count", str(FEW))
    truth = Truth.load(demo.out)
    right = next(each for each in truth.books.invoices if each.file not in truth.planted and not each.scanned)
    demo.run("--edit", str(right.place), "--total", "9999.00")
    demo.run("--again")
    assert demo.red == {*truth.planted, right.file}, demo.said


@pytest.mark.long
@pytest.mark.gvisor
@pytest.mark.timeout(900)
def test_it_ends_with_the_same_rows_behind_gvisor(demo: Demo) -> None:
    said = demo.run("--seed", "31", "--count", str(FEW), "--wall", "gvisor", seconds=800)
    truth = Truth.load(demo.out)
    assert demo.red == set(truth.planted), said
    assert "The password reached the ERP in 1 request." in said
    assert re.search(r"wall +gvisor|gvisor \(runsc", said), said
    assert not states(demo)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("turn", range(5))
def test_500_invoices_of_any_seed_are_audited(turn: int, demo: Demo) -> None:
    said = demo.run("--seed", str(secrets.randbelow(10**6)), seconds=560)
    assert demo.red == set(Truth.load(demo.out).planted), said


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("moment", ["export   ", "read     ", "report   ", "verify   "])
def test_killed_and_resumed_it_ends_with_the_same_cells(moment: str, demo: Demo) -> None:
    demo.kill_once(demo.start("--seed", "31", "--count", str(FEW)), f"\n{moment}")
    demo.resume()
    resumed, red = demo.cells, demo.red
    assert red == set(Truth.load(demo.out).planted)
    demo.run("--seed", "31", "--count", str(FEW), seconds=300)
    assert demo.cells == resumed
    assert not states(demo)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_worker_that_steals_data_gets_nothing_out(demo: Demo) -> None:
    said = demo.run("--seed", str(secrets.randbelow(10**6)), "--count", str(FEW), "--brain", "hijacked", seconds=800)
    assert "brain    adversary hijacked" in said
    assert "The thief's server got 0 requests; the ERP got 0 requests outside the brief." in said
    assert re.search(r"refused +\d+ x deny \S+ collect\.example\.test", said), said
