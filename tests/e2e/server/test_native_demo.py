"""The audit from the page: `make serve-demo` has an ERP and a server, and the template runs to a verified workbook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.server.native import job_when

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(400)]
AUDIT = Path(__file__).parents[3] / "examples/audit"
BOOK = "Discrepancy_Report.xlsx"
FEW = 45
"""Invoices, with the odd one among them."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that runs."""

    out: Path
    api: httpx.Client


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Give the demo as somebody has it who started it; in the end nothing is left of it."""
    out = tmp_path_factory.mktemp("demo")
    argv = [sys.executable, str(AUDIT / "serve.py"), "--seed", "3", "--count", str(FEW), "--out", str(out)]
    with (out / "said").open("wb") as said:
        process = subprocess.Popen([*argv, "--port", "0"], stderr=said, stdout=said, process_group=0)
    try:
        url, key = said_in(out / "said", process)
        with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": key}, timeout=60) as api:
            yield Demo(out, api)
    finally:
        state = Path((out / "audit-state").read_text())
        process.terminate()
        try:
            process.wait(120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert not state.exists()


def said_in(log: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Wait until the demo says where it is, and give that and the key."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        words = log.read_text().split()
        found = [[each for each in words if each.startswith(begin)] for begin in ("http://", "e2b_")]
        if all(found):
            return found[0][0], found[1][0]
        time.sleep(0.1)
    pytest.fail(log.read_text())


def test_the_audit_runs_from_its_template_to_a_verified_workbook_whose_red_rows_are_the_wrong_ones(demo: Demo) -> None:
    [template] = [each for each in demo.api.get("/templates").json()["items"] if each["name"] == "audit"]
    assert (template["scripted"], template["files"]) == (True, [])
    made = demo.api.post("/jobs", json={"template": "audit", "approve": "auto"})
    assert made.status_code == 201, made.text
    told = finished(demo, made.json()["id"])
    [book] = told["deliverables"]
    assert (book["path"], book["verdict"], bool(book["certificate"])) == (BOOK, "passed", True)
    (demo.out / BOOK).write_bytes(demo.api.get(f"/drive/{book['name']}").raise_for_status().content)
    judge = [sys.executable, str(AUDIT / "judge.py"), str(demo.out / BOOK), str(demo.out)]
    judged = subprocess.run([*judge, str(demo.out / "audit/invoices")], capture_output=True, timeout=120, check=False)
    assert judged.returncode == 0, judged.stdout.decode() + judged.stderr.decode()


def finished(demo: Demo, job: str) -> dict[str, Any]:
    """Wait for the job, for as long as it takes on a busy machine."""
    for _ in range(3):
        try:
            return job_when(demo.api, job, "done")
        except AssertionError:
            if demo.api.get(f"/jobs/{job}").json()["state"] != "running":
                raise
    return job_when(demo.api, job, "done")
