"""Test of a model at a server without tools, which makes no plan: the job fails before any desk opens."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from examples.trial import HOTDESK

from hotdesk.brain.planning import FORM_CORRECTIONS, ROUNDS
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Burnt, StepBegun
from hotdesk.job.record.receipt import read_receipt
from tests.providers.chat import chat_server, text

BRIEF = """\
goal = "Count."
egress = ["read example.test"]
wall = "local"
deliverables = [{path = "count.xlsx", check = "sheet", expect = {columns = ["Words"], rows = 1}}]
"""


def test_a_model_that_calls_no_tool_fails_after_it_was_told_the_error(tmp_path: Path) -> None:
    (tmp_path / "brief.toml").write_text(BRIEF)
    env = {**os.environ, "HOTDESK_HOME": str(tmp_path), "HOTDESK_ALLOW_LOCAL": "1"}
    with chat_server(lambda body: [text("You can count with Python.")]) as server:
        argv = ["work", str(tmp_path), "--model", f"chat:m@{server.base_url}", "--out", str(tmp_path / "out")]
        done = subprocess.run(
            [*HOTDESK, *argv], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        last = server.requests[-1]["messages"][-1]["content"]
    assert done.returncode == 1, done.stderr
    assert len(server.requests) == ROUNDS + FORM_CORRECTIONS
    assert "no plan was submitted" in last
    assert "For example: " in last
    [job] = os.listdir(tmp_path / "lib/jobs")
    receipt = read_receipt(tmp_path / "lib/keys" / FILE, job)
    assert receipt.outcome == "failed"
    assert receipt.why.startswith("The model gave no readable plan after 5 rounds.")
    events = [row.read_event() for row in read(tmp_path / "lib/keys" / FILE)]
    assert [event for event in events if isinstance(event, Burnt | StepBegun)] == []
