"""Tests of inspections in a batch: each file has limits of its own, and none affects another."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotdesk.checks import find
from hotdesk.checks.batch import BatchedCheck, is_cut, look_many
from hotdesk.checks.evidence import INSIDE, RESIDENT, RUN
from hotdesk.checks.seam import Evidence
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import local_runtime

PROGRAM = """
import json, os, subprocess, sys, time

def main():
    request = json.load(sys.stdin)
    if request.get("starts"):
        subprocess.run(["sleep", request["starts"]])
    time.sleep(request.get("seconds", 0))
    if request.get("ends"):
        os._exit(1)
    print(json.dumps({"text": "x" * request.get("size", 1)}))
"""
SHORT = {"text": "x"}


def looked_at(folder: Path, *groups: list[dict[str, object]], seconds: float = 2.5, most: int = 100) -> list[bytes]:
    shutil.copy(INSIDE / f"{RESIDENT}.py", folder)
    (folder / "program.py").write_text(PROGRAM)
    asked = [[{"program": "program", "request": each} for each in group] for group in groups]
    request = {"groups": asked, "remove": [], "seconds": seconds, "most": most}
    argv = [sys.executable, "-I", "-B", "-c", RUN, str(folder), RESIDENT]
    done = subprocess.run(argv, input=json.dumps(request).encode(), capture_output=True, check=True, timeout=60)
    *lines, rest = done.stdout.split(b"\n")
    assert rest == b""
    return lines


def read(line: bytes) -> object:
    return json.loads(line)


def test_every_file_has_its_own_limits(tmp_path: Path) -> None:
    group: list[dict[str, object]] = [{"seconds": 1.5, "size": 60}, {"seconds": 1.5, "size": 60}, {}]
    assert [read(line) for line in looked_at(tmp_path, group)] == [{"text": "x" * 60}] * 2 + [SHORT]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"seconds": 9}, "took longer than 2.5 seconds"),
        ({"size": 101}, "is larger than 100 bytes"),
        ({"size": 1 << 20}, "is larger than 100 bytes"),
        ({"ends": True}, "ended early"),
    ],
)
def test_a_file_beyond_its_limit_affects_no_other(tmp_path: Path, asked: dict[str, object], why: str) -> None:
    lines = looked_at(tmp_path, [{}, asked, {}], [{}])
    assert [read(lines[at]) for at in (0, 2, 3)] == [SHORT] * 3
    assert why in str(read(lines[1]))
    assert [is_cut(Evidence(line)) for line in lines] == [False, "ended" not in why, False, False]


def test_programs_of_an_inspection_that_took_too_long_end_with_it(tmp_path: Path) -> None:
    mark = f"30.{time.monotonic_ns()}"
    looked_at(tmp_path, [{"starts": mark}])
    listed = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(mark.encode() in each for each in listed)


async def test_a_file_beyond_the_limits_of_a_batch_is_told_with_a_remedy_and_can_be_inspected_alone() -> None:
    check = find("csv", {"columns": ["a", "b"]})
    assert isinstance(check, BatchedCheck)
    async with local_runtime() as runtime:
        desk = await runtime.open(Spec())
        await desk.write("a.csv", b"a,b\n" + b"text,text\n" * 120_000)
        asked = check.ask_look("a.csv", "beside")
        assert asked is not None
        both, _ = await look_many(desk, [[asked], [asked]])
        alone, trouble = await look_many(desk, [[asked]])
        await runtime.burn(desk.id)
    assert [is_cut(each) for each in both] == [True, True]
    verdict = check.judge(both[0])
    assert "larger than 1048576 bytes" in verdict.findings[0]
    assert "within this limit" in verdict.findings[0]
    assert (trouble, is_cut(alone[0])) == ("", False)
    assert check.judge(alone[0]).passed
