"""Test of the report that `hotdesk work` and `resume` leave however a job ends, and that can be made again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Hotdesk

pytestmark = pytest.mark.container
BRIEF = """goal = "Make <b>it</b>"
deliverables = [{path = "a.xlsx", check = "sheet", expect = {columns = ["A"], rows = 0}}]
"""
SCRIPT = """
from hotdesk.brain.models.scripted import step


async def make(hands):
    "Write what is asked for."
    await hands.write("notes.txt", b"begun")
    return await hands.run(["sh", "-c", "echo no paper left >&2; exit 3"])


PLAN = (step(make, makes=["a.xlsx"]),)
"""


@pytest.mark.long
def test_a_stopped_or_failed_job_leaves_a_report(hotdesk: Hotdesk, home: Path) -> None:
    folder = home / "reported"
    folder.mkdir()
    (folder / "brief.toml").write_text(BRIEF)
    (folder / "brain.py").write_text(SCRIPT)
    report = folder / "out/report.html"
    begun = ["work", str(folder), "--script", str(folder / "brain.py"), "--out", str(folder / "out"), "--acts", "1"]
    done = hotdesk(*begun)
    assert done.returncode == 75, done.stderr
    assert done.stdout == b""
    assert f"report   {report}\n" in done.stderr.decode()
    first = report.read_text()
    assert "the job's budget of 1 acts is used up" in first
    assert "Make &lt;b&gt;it&lt;/b&gt;" in first
    assert "came from a script, not from a model" in first
    found = re.search("hotdesk resume (i[a-z0-9]+)", first)
    assert found is not None
    done = hotdesk("resume", found[1], "--acts", "50")
    assert done.returncode == 1, done.stderr
    second = report.read_text()
    assert "The work failed after" in second
    assert "exit code 3: no paper left" in second
    assert "Left behind" in second
    again(hotdesk, found[1], folder)


def again(hotdesk: Hotdesk, job: str, folder: Path) -> None:
    there = folder / "again.html"
    done = hotdesk("report", job[:8], "--out", str(there))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{there}\n"
    shown = hotdesk("report", job, "--out", "-")
    assert shown.stdout.partition(b"Made ")[0] == there.read_bytes().partition(b"Made ")[0]
    there.write_text("mine")
    refused = hotdesk("report", job, "--out", str(there))
    assert refused.returncode == 125
    assert b"move it away" in refused.stderr
    assert there.read_text() == "mine"
    assert hotdesk("report", "inone").returncode == 125
