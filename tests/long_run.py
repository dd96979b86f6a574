"""A pytest plugin for the long tests: they run in pieces, and tests that passed on this commit are not run again.

`make test-long` runs for at most MINUTES (60) and records every outcome in `out/test-long.jsonl`; the next call runs
the tests that have not passed, new ones before failed ones. SINCE=REV also accepts tests that passed on the commits
from REV on. SHARD=2/4 takes a quarter of the test files, for several machines. The run succeeds when no test is left.
With pytest-xdist the workers choose and stop, and the controller records.
"""

from __future__ import annotations

import json
import subprocess
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest

DONE = ("passed", "xfailed", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="a file of outcomes; tests that passed on this commit are left out")
    parser.addoption("--minutes", type=float, default=60.0, help="stop after this many minutes")
    parser.addoption("--since", default="", help="a commit: what passed on it or on a later one need not run again")
    parser.addoption("--shard", default="1/1", help="K/N: the Kth of N parts of the test files")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record"):
        config.pluginmanager.register(LongRun(config), "long-run")


class LongRun:
    """One piece of the long run."""

    def __init__(self, config: pytest.Config) -> None:
        self.file: Path = config.getoption("record")
        self.until = time.monotonic() + config.getoption("minutes") * 60
        self.part, self.parts = map(int, config.getoption("shard").split("/"))
        self.commit = git("rev-parse", "HEAD")[0]
        since = config.getoption("since")
        later = git("rev-parse", since) + git("rev-list", f"{since}..HEAD") if since else []
        self.accepted = {self.commit, *later}
        self.outcomes = read(self.file, self.accepted)
        self.records = not hasattr(config, "workerinput")
        self.left = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        mine = [item for item in items if zlib.crc32(item.path.name.encode()) % self.parts == self.part - 1]
        again = [item for item in mine if self.outcomes.get(item.nodeid) not in DONE]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(again)])
        items[:] = sorted(again, key=lambda item: item.nodeid in self.outcomes)
        self.left = len(again)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.left = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test, including its set-up and tear-down."""
        if report.when == "call" or not report.passed:
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            self.outcomes[report.nodeid] = outcome
            if not self.records:
                return
            with self.file.open("a") as file:
                line = {"test": report.nodeid, "outcome": outcome, "seconds": round(report.duration, 1)}
                file.write(json.dumps({**line, "commit": self.commit}) + "\n")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.left -= self.outcomes.get(nodeid) in DONE
        if self.left and time.monotonic() > self.until:
            self.session.shouldstop = "the time is up: run it again to go on"

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.left:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a table of outcomes by file."""
        count = Counter((test.partition("::")[0], outcome) for test, outcome in self.outcomes.items())
        terminalreporter.section(f"long tests on {self.commit[:12]} and {len(self.accepted) - 1} before")
        for name in sorted({name for name, _ in count}):
            found = [f"{count[name, each]} {each}" for each in (*DONE, "failed") if count[name, each]]
            terminalreporter.write_line(f"{name}: {', '.join(found)}")
        terminalreporter.write_line(f"{self.left} left or failed in this shard")


def git(*args: str) -> list[str]:
    argv = ["git", "-c", "safe.directory=*", *args]  # root may run this in a checkout that belongs to a user
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def read(file: Path, commits: set[str]) -> dict[str, str]:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    return {row["test"]: row["outcome"] for row in rows if row["commit"] in commits}
