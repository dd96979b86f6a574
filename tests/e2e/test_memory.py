"""Tests of memory across jobs with the real program: a job leaves a parser, the next uses it, a person removes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import DriveChanged, MemoryKept, MemoryOffered
from tests.e2e.conftest import Hotdesk

pytestmark = pytest.mark.container
BRIEF = """
goal = "Count the orders of the month."
inputs = ["orders.txt"]
memory = "orders"
approve = "auto"

[[deliverables]]
path = "count.csv"
expect = {columns = ["Orders"], rows = 1}
"""
PARSER = """
import pathlib
lines = pathlib.Path("orders.txt").read_text().splitlines()
pathlib.Path("count.csv").write_text("Orders\\n%d\\n" % sum(line.startswith("PO-") for line in lines))
"""
FACT = "Order lines begin with PO-; the others are comments."
FIRST = f"""
from hotdesk.brain.models.scripted import Hands, step

async def count(hands: Hands):
    "Count the orders."
    await hands.write("parse.py", {PARSER.encode()!r})
    await hands.remember({FACT!r}, keep=True)
    await hands.keep_file("parse.py")
    return await hands.run(["python3", "parse.py"])

PLAN = (step(count, files=["orders.txt"], makes=["count.csv"]),)
"""
SECOND = f"""
from hotdesk.brain.models.scripted import Hands, step

async def count(hands: Hands):
    "Count the orders."
    facts = (await hands.read("memory/facts.md")).decode()
    assert {FACT!r} in facts, facts
    assert (await hands.run(["sh", "-c", "echo x >> memory/parse.py"])).exit_code != 0
    return await hands.run(["python3", "memory/parse.py"])

PLAN = (step(count, files=["orders.txt", "memory"], makes=["count.csv"]),)
"""


@pytest.fixture
def run(hotdesk: Hotdesk) -> Hotdesk:
    def run(*argv: str) -> subprocess.CompletedProcess[bytes]:
        return hotdesk(*argv, PYTHONPATH=os.pathsep.join(filter(None, sys.path)))

    return run


def work(run: Hotdesk, folder: Path, script: str) -> str:
    """Carry the brief out with a script; return the job's id."""
    (folder / "brain.py").write_text(script)
    out = folder.parent / "out"
    argv = ("work", str(folder), "--script", str(folder / "brain.py"), "--out", str(out), "--json")
    done: subprocess.CompletedProcess[bytes] = run(*argv)
    assert done.returncode == 0, done.stderr.decode()
    assert (out / "count.csv").read_text() == "Orders\n2\n"
    return str(json.loads(done.stdout.splitlines()[0])["data"]["job"])


@pytest.mark.long
def test_the_next_job_uses_the_memory_of_the_previous_one(run: Hotdesk, settings: Config, tmp_path: Path) -> None:
    folder = tmp_path / "brief"
    folder.mkdir()
    (folder / "brief.toml").write_text(BRIEF)
    (folder / "orders.txt").write_text("# june\nPO-1\nPO-2\n")
    first, second = (work(run, folder, script) for script in (FIRST, SECOND))
    journal = settings.lib / "keys" / FILE
    kept = [event for row in read(journal, first) if isinstance(event := row.read_event(), MemoryKept)]
    assert [(each.kind, each.step, each.sources) for each in kept] == [
        ("fact", "count", ("input orders.txt",)),
        ("file", "count", ("input orders.txt",)),
    ]
    (offered,) = [event for row in read(journal, second) if isinstance(event := row.read_event(), MemoryOffered)]
    assert sorted(offered.digests) == sorted(each.sha256 for each in kept)

    (row,) = [each for each in json.loads(run("memory", "ls", "--json").stdout) if each["memory"] == "orders"]
    assert (row["facts"], row["files"]) == (1, 1)
    assert b"orders" in run("memory", "ls").stdout
    shown = json.loads(run("memory", "show", "orders", "--json").stdout)
    assert {(each["kind"], each["job"], each["step"], each["text"]) for each in shown} == {
        ("fact", first, "count", FACT),
        ("file", first, "count", ""),
    }
    assert f"> {FACT}" in run("memory", "show", "orders").stdout.decode()
    assert run("memory", "rm", "orders", "parse.py").stdout == b"removed file parse.py from the memory orders\n"
    assert [each["kind"] for each in json.loads(run("memory", "show", "orders", "--json").stdout)] == ["fact"]
    assert run("memory", "rm", "orders").returncode == 0
    gone = run("memory", "show", "orders")
    assert (gone.returncode, b"There is no memory orders" in gone.stderr) == (125, True)
    removed = [event for row in read(journal) if isinstance(event := row.read_event(), DriveChanged)]
    assert removed[0].name == "memory/orders/files/parse.py"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("show", "nobodys"), b"There is no memory nobodys"),
        (("rm", "nobodys", "x"), b"There is no "),
        (("show", "../up"), b"is not the name of a memory"),
    ],
)
def test_missing_memory_is_reported_in_one_line(run: Hotdesk, argv: tuple[str, ...], said: bytes) -> None:
    done = run("memory", *argv)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1)
    assert said in done.stderr


def test_help_has_examples(run: Hotdesk) -> None:
    for argv in ((), ("ls",), ("show",), ("rm",)):
        assert b"hotdesk memory " in run("memory", *argv, "--help").stdout
