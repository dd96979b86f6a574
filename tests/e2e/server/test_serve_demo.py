"""Tests of `make serve-demo`, an ERP and a server: the audit ends with a verified workbook, by the API and the page."""

from __future__ import annotations

import os
import random
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
from playwright.sync_api import expect

from hotdesk.plan import OURS
from tests.e2e.server.chromium import chromium, opened
from tests.e2e.server.native import job_when
from tests.stall_watch import WATCHED, require_no_stalls

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(400)]
AUDIT = Path(__file__).parents[3] / "examples/audit"
BOOK = "Discrepancy_Report.xlsx"
FEW = 45
"""Invoices, with the odd one among them."""
PATIENCE = 180_000
"""Milliseconds, for a busy machine."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo."""

    out: Path
    url: str
    key: str
    api: httpx.Client

    def judge(self) -> None:
        argv = [sys.executable, str(AUDIT / "judge.py"), str(self.out / BOOK), str(self.out)]
        invoices = str(self.out / "audit/invoices")
        judged = subprocess.run([*argv, invoices], capture_output=True, timeout=120, check=False)
        assert judged.returncode == 0, judged.stdout.decode() + judged.stderr.decode()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Yield the demo as it is for a person who started it; at the end nothing of it is left."""
    out = tmp_path_factory.mktemp("demo")
    argv = [sys.executable, str(AUDIT / "serve.py"), "--seed", "3", "--count", str(FEW), "--out", str(out)]
    with (out / "said").open("wb") as said:
        process = subprocess.Popen(
            [*argv, "--port", "0"], stderr=said, stdout=said, process_group=0, env={**os.environ, **WATCHED}
        )
    try:
        url, key = said_in(out / "said", process)
        with httpx.Client(base_url=f"{url}/api/v1", headers={"X-API-Key": key}, timeout=60) as api:
            yield Demo(out, url, key, api)
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
    require_no_stalls(out / "said")


def said_in(log: Path, process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Wait until the demo prints its address and key; return both."""
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
    demo.judge()


def test_a_person_at_a_browser_starts_the_audit_approves_it_and_downloads_the_workbook(demo: Demo) -> None:
    with chromium() as browser, opened(browser) as seen:
        seen.sign_in(demo)
        page = seen.page
        page.get_by_role("link", name="New job").click()
        page.get_by_role("button", name="Audit invoices against the ERP").click()
        page.get_by_role("button", name="Start").click()
        plan = page.get_by_role("article", name="Carry out this plan?")
        plan.get_by_role("button", name="Approve").click(timeout=PATIENCE)
        page.get_by_role("tab", name="Desktop").click()
        expect(page.locator(".panel .chip")).to_have_text("live", timeout=PATIENCE)
        page.get_by_role("tab", name="Overview").click()
        expect(page.locator(".chip[data-is=verified]")).to_be_visible(timeout=PATIENCE)
        with page.expect_download() as taken:
            page.get_by_role("link", name="Download").click()
        (demo.out / BOOK).write_bytes(Path(taken.value.path()).read_bytes())
        seen.require_peace()
    demo.judge()


@pytest.mark.parametrize("clicks", [4])
def test_the_audit_is_taken_over_at_several_moments_and_ends_verified(demo: Demo, clicks: int) -> None:
    with chromium() as browser, opened(browser) as seen:
        seen.sign_in(demo)
        page = seen.page
        job = demo.api.post("/jobs", json={"template": "audit", "approve": "auto"}).json()["id"]
        page.goto(f"{demo.url}/#/jobs/{job}/desktop")
        pauses = random.Random(clicks)
        for _ in range(clicks):
            page.get_by_role("button", name="Take over").click(timeout=PATIENCE)
            expect(page.get_by_text("You have control.")).to_be_visible(timeout=PATIENCE)
            page.locator(".screen canvas").click(position={"x": 500, "y": 300})
            page.keyboard.type("x")
            page.get_by_role("button", name="Hand back").click()
            expect(page.get_by_text("You have control.")).to_be_hidden(timeout=PATIENCE)
            page.wait_for_timeout(pauses.uniform(200, 2500))
        expect(page.get_by_role("heading", name="The result is being checked")).to_be_visible(timeout=PATIENCE)
        [book] = finished(demo, job)["deliverables"]
        assert (book["verdict"], bool(book["certificate"])) == ("passed", True)
        seen.require_peace()
    rows = demo.api.get("/journal", params={"limit": 1000, "chain": job}).json()["items"]
    assert not [row for row in rows if row["name"] == "RolledBack"]
    begun = [row["data"] for row in rows if row["name"] == "StepBegun" and row["data"]["step"] not in OURS]
    assert [(each["step"], each["attempt"]) for each in begun] == [("export", 1), ("read", 1), ("report", 1)]


def finished(demo: Demo, job: str) -> dict[str, Any]:
    for _ in range(3):
        try:
            return job_when(demo.api, job, "done")
        except AssertionError:
            if demo.api.get(f"/jobs/{job}").json()["state"] != "running":
                raise
    return job_when(demo.api, job, "done")
