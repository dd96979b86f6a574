"""A swarm as processes: started by its command, its parts found and killed; its result is read without times."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

from hotdesk.config import Config
from hotdesk.drive.journal import FILE, read
from hotdesk.event import Event, ItemEnded
from tests.e2e.conftest import environment
from tests.swarm_room import SCRIPT

ROOT = Path(__file__).parents[2]
HOTDESK = [sys.executable, "-c", "from hotdesk.cli import main; main()"]
PAUSED, KILLED = 75, -signal.SIGKILL
PROGRAMS = {"door": "hotdesk.door.process", "keys": "hotdesk.keys.process"}
BRIEF = """
goal = "Count the letters of {item}."
size = {cpus = 1, memory = "256M", disk = "64M"}
deliverables = [{path = "{item}.json", expect = {types = {letters = "integer"}}}]
[each]
over = "words.txt"
[reduce]
goal = "Add up the letters."
deliverables = [{path = "total.json", expect = {types = {total = "integer"}}}]
"""
RESULT = ("item", "index", "input", "outcome", "paths", "digests", "sizes", "checks", "why", "cause")
"""The fields of an item's record that are its result: not when, at which desk and in which attempt."""


def source_path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", ""))}


def write_brief(folder: Path, count: int, egress: str = "", script: str = SCRIPT) -> Path:
    """Write a brief over so many words, with its script; return its folder."""
    (folder / "words.txt").write_text("".join(f"word{number}\n" for number in range(count)))
    (folder / "brief.toml").write_text((f"egress = [{json.dumps(egress)}]\n" if egress else "") + BRIEF)
    (folder / "brain.py").write_text(script)
    return folder


def find_parts(owner: int) -> dict[str, int]:
    """Return the processes of a running swarm: its owner, its keeper, and door and keys if they have started."""
    found = {"owner": owner}
    with suppress(OSError, ValueError):
        keeper = found["keeper"] = min(int(pid) for pid in _children(owner))
        for pid in _children(keeper):
            argv = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            found |= {name: int(pid) for name, module in PROGRAMS.items() if module in argv}
    return found


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@dataclass
class SwarmProcess:
    """A swarm that its command carries out, in one process after another."""

    settings: Config
    brief: Path
    job: str = ""
    ends: list[str] = field(default_factory=list)
    """Ids of items that ended, as its output reports them."""
    kills: list[str] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.brief / "out"

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[bytes]]:
        begin = ["swarm", str(self.brief), "--script", str(self.brief / "brain.py"), "--out", str(self.out), "--json"]
        argv = ["resume", self.job, "--json"] if self.job else begin
        env = {**environment(self.settings), **source_path()}
        with (self.brief / "said").open("ab") as said, subprocess.Popen(
            [*HOTDESK, *argv], env=env, stdout=PIPE, stderr=said
        ) as process:  # fmt: skip
            yield process

    def run(self, *plan: tuple[str, int]) -> int:
        """Run one process of the swarm; kill each part of `plan` after so many more items. Return the exit code."""
        waiting = list(plan)
        with self.process() as process:
            assert process.stdout is not None
            before = len(self.ends)
            for line in process.stdout:
                event = json.loads(line)
                self.job = self.job or event["data"].get("job", "")
                if event["event"] == "ItemEnded":
                    self.ends.append(event["data"]["item"])
                if waiting and len(self.ends) - before >= waiting[0][1]:
                    victim, before = waiting[0][0], len(self.ends)
                    if pid := find_parts(process.pid).get(victim):
                        os.kill(pid, signal.SIGKILL)
                        self.kills.append(victim)
                        del waiting[0]
        return process.returncode

    def read_events(self) -> list[Event]:
        return [row.read_event() for row in read(self.settings.lib / "keys" / FILE, self.job)]

    def list_records(self) -> list[ItemEnded]:
        return [event for event in self.read_events() if isinstance(event, ItemEnded)]

    def read_result(self) -> tuple[list[tuple[object, ...]], bytes, bytes]:
        """Return the result without times: records, the archive of all deliverables, the report."""
        last = {each.item: each for each in self.list_records()}
        records = sorted(tuple(getattr(each, name) for name in RESULT) for each in last.values())
        return records, (self.out / "results.zip").read_bytes(), (self.out / "total.json").read_bytes()
