"""Test of the guide to working: every command in it is run, from its first line to its last."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Pending
from tests.e2e.conftest import PROGRAM, environment

pytestmark = pytest.mark.container
GUIDE = (Path(__file__).parents[2] / "docs/guide/work.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
SECONDS = 60
CODES = {"--model": 75, "--acts 3": 75, "--adversary hijacked": 75}
"""Exit codes other than 0. No model is reachable here, so a job with a model pauses."""


class Terminal:
    """Runs the guide's commands one after another, in a folder of its own."""

    def __init__(self, settings: Config, folder: Path) -> None:
        more = {"PATH": f"{Path(PROGRAM).parent}:/usr/bin:/bin", "HOTDESK_LOOPBACK_MODELS": "1"}
        self.env = {**environment(settings), **more}
        if "PYTHONPATH" in os.environ:
            self.env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        self.folder = folder
        self.said: dict[str, str] = {}
        """Output by command."""
        self.behind: list[subprocess.Popen[bytes]] = []
        self.answered: list[str] = []
        self.journal = settings.lib / "keys" / FILE
        self.jobs: list[str] = []
        """Ids of jobs whose `hotdesk work` has ended."""

    def do(self, line: str) -> None:
        if line.endswith("&"):
            argv = ["bash", "-c", f"exec {line[:-1]}"]
            self.behind.append(subprocess.Popen(argv, cwd=self.folder, env=self.env, stderr=subprocess.PIPE))
            return
        if line.startswith("export"):
            return
        if "$ID" in line:
            line = line.replace("$ID", self.waits())
        if "$JOB" in line:
            line = line.replace("$JOB", self.jobs[-1])
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.env, capture_output=True, timeout=SECONDS, check=False
        )
        code = next((code for words, code in CODES.items() if words in line), 0)
        assert done.returncode == code, f"{line}: {done.returncode}\n{done.stderr.decode()}"
        self.said[line] = (done.stdout + done.stderr).decode()
        if line.startswith("hotdesk work"):
            self.jobs = self.begun()

    def waits(self) -> str:
        """Return the id of the next approval that waits for an answer."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for row in read(self.journal, names=["Pending"]):
                event = row.read_event()
                if isinstance(event, Pending) and row.chain not in self.jobs and event.id not in self.answered:
                    self.answered.append(event.id)
                    return event.id
            time.sleep(0.1)
        raise AssertionError("no request is pending")

    def begun(self) -> list[str]:
        return [row.chain for row in read(self.journal, names=["JobBegun"])]


@pytest.mark.long
def test_the_guide_to_working_works(settings: Config, home: Path) -> None:
    folder = home / "guide"
    folder.mkdir()
    terminal = Terminal(settings, folder)
    saved, script = iter(("report.py", "asks.py")), ""
    for form, text in BLOCKS:
        if form == "python":
            script += text
            (folder / next(saved)).write_text(script)
            continue
        for line in text.splitlines():
            terminal.do(line)
        if "answer" in text:
            (waited,) = terminal.behind
            _, err = waited.communicate(timeout=SECONDS)
            assert waited.returncode == 0, err.decode()
            plan, question = terminal.answered
            assert f"\napproved {plan} by " in err.decode()
            assert f"\nanswered {question} by " in err.decode()
    said = terminal.said
    model = said["hotdesk work report --model anthropic:claude-sonnet-5"]
    assert "was not called" in model
    out = said["hotdesk work report --script report.py --out results"]
    assert out.splitlines()[0] == f"{folder}/results/report.xlsx"
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "JobBegun"
    assert (folder / "again.xlsx").read_bytes()[:2] == b"PK"
    assert not list((settings.run / "desks").iterdir())


def test_the_guide_has_no_command_that_does_not_exist() -> None:
    lines = [line for form, text in BLOCKS if form == "sh" for line in text.splitlines()]
    known = subprocess.run([PROGRAM, "--help"], capture_output=True, check=True).stdout.decode()
    for line in lines:
        words = [word for word in shlex.split(line) if "=" not in word]
        assert words[0] in ("hotdesk", "export")
        assert words[0] == "export" or f"\n  {words[1]} " in known, line
