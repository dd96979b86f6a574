"""A pytest plugin for the long tests: they run in pieces, and tests that passed on this commit are not run again.

`make test-long` runs for at most MINUTES (60) and records every outcome in `out/test-long.jsonl`; the next call runs
the tests that have not passed, new ones before failed ones. SINCE=REV also accepts tests that passed on the commits
from REV on. SHARD=2/4 takes a quarter of the test files, for several machines. The run succeeds when no test is left.
With pytest-xdist the workers choose and stop, and the controller records.

A test file whose long tests have all passed on one commit gets a row in `tests/long-results.csv`. The table is meant to
be committed, so that runs on several machines add up: SINCE=REV also accepts its rows of commits from REV on, if the
test file has not changed since and no test of it was skipped.
"""

from __future__ import annotations

import csv
import json
import subprocess
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

DONE = ("passed", "xfailed", "skipped")
COLUMNS = ("file", "commit", "date", *DONE, "seconds")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, help="a file of outcomes; tests that passed on this commit are left out")
    parser.addoption("--minutes", type=float, default=60.0, help="stop after this many minutes")
    parser.addoption("--since", default="", help="a commit: what passed on it or on a later one need not run again")
    parser.addoption("--results", type=Path, help="a table of whole test files that passed: not with -k")
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
        self.seconds: dict[str, float] = defaultdict(float)
        self.run_here: set[str] = set()
        """The tests that ran on this commit."""
        self.outcomes = self.read_record()
        self.results: Path | None = config.getoption("results")
        self.passed_files = find_passed_files(self.results, self.accepted) if since and self.results else frozenset()
        self.records = not hasattr(config, "workerinput")
        self.chosen: list[str] = []
        """The tests that this run was to run."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        mine = [item for item in items if zlib.crc32(item.path.name.encode()) % self.parts == self.part - 1]
        mine = [item for item in mine if get_file(item.nodeid) not in self.passed_files]
        again = [item for item in mine if self.outcomes.get(item.nodeid) not in DONE]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(again)])
        items[:] = sorted(again, key=lambda item: item.nodeid in self.outcomes)
        self.chosen = [item.nodeid for item in again]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.chosen = ids

    @property
    def left(self) -> list[str]:
        return [test for test in self.chosen if self.outcomes.get(test) not in DONE]

    def read_record(self) -> dict[str, str]:
        """Return the outcomes of accepted commits, and sum up the time of each file."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        rows = [row for row in map(json.loads, lines) if row["commit"] in self.accepted]
        for row in rows:
            self.seconds[get_file(row["test"])] += row["seconds"]
            self.run_here |= {row["test"]} if row["commit"] == self.commit else set()
        return {row["test"]: row["outcome"] for row in rows}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test, including its set-up and tear-down."""
        if report.when == "call" or not report.passed:
            outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
            self.outcomes[report.nodeid] = outcome
            self.seconds[get_file(report.nodeid)] += report.duration
            self.run_here.add(report.nodeid)
            if not self.records:
                return
            with self.file.open("a") as file:
                line = {"test": report.nodeid, "outcome": outcome, "seconds": round(report.duration, 1)}
                file.write(json.dumps({**line, "commit": self.commit}) + "\n")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if time.monotonic() > self.until and self.left:
            self.session.shouldstop = "the time is up: run it again to go on"

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and not self.left:
            session.exitstatus = pytest.ExitCode.OK
        if self.records and self.results:
            self.add_results(self.results)

    def add_results(self, table: Path) -> None:
        """Give each file whose tests all passed on this commit a row in the table, in place of an earlier one."""
        left = {get_file(test) for test in (*self.left, *(self.outcomes.keys() - self.run_here))}
        rows: dict[str, Mapping[str, object]] = {row["file"]: row for row in read_results(table)}
        count = Counter((get_file(test), outcome) for test, outcome in self.outcomes.items())
        for name in {get_file(test) for test in self.chosen} - left:
            rows[name] = {
                "file": name,
                "commit": self.commit,
                "date": datetime.now(UTC).date().isoformat(),
                **{each: count[name, each] for each in DONE},
                "seconds": round(self.seconds[name]),
            }
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[name] for name in sorted(rows))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a table of outcomes by file."""
        count = Counter((get_file(test), outcome) for test, outcome in self.outcomes.items())
        terminalreporter.section(f"long tests on {self.commit[:12]} and {len(self.accepted) - 1} before")
        for name in sorted({name for name, _ in count}):
            found = [f"{count[name, each]} {each}" for each in (*DONE, "failed") if count[name, each]]
            terminalreporter.write_line(f"{name}: {', '.join(found)}")
        if self.passed_files:
            terminalreporter.write_line(f"{len(self.passed_files)} files passed on accepted commits, by {self.results}")
        terminalreporter.write_line(f"{len(self.left)} left or failed in this shard")


def get_file(test: str) -> str:
    return test.partition("::")[0]


def read_results(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return [dict(row) for row in csv.DictReader(file)]


def find_passed_files(table: Path, accepted: Iterable[str]) -> frozenset[str]:
    """Return the test files that passed on an accepted commit, without a skipped test, and are unchanged since."""
    found = [row for row in read_results(table) if row["commit"] in set(accepted) and row["skipped"] == "0"]
    rows = [(row["file"], row["commit"]) for row in found]
    changed = {commit: set(git("diff", "--name-only", "--relative", commit)) for _, commit in rows}
    return frozenset(name for name, commit in rows if name not in changed[commit])


def git(*args: str) -> list[str]:
    argv = ["git", "-c", "safe.directory=*", *args]  # root may run this in a checkout that belongs to a user
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
