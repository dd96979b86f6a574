"""Run tests of the repository against the installed hotdesk: `run_tests.py TEST...`, by its own Python.

Other packages that tests import are in the kit's library, which comes last, so that the installed hotdesk is tested.
The last line printed is JSON: the passed tests by folder, and the failed ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from typing import Any

KIT = "/kit"
TIMEOUT_S = 300
MAX_CASES = 30
"""Of the 200 cases of one test each takes a second; doctor examines the whole table of system calls in one program."""
sys.path[:0] = [f"{KIT}/tree"]
sys.path.append(f"{KIT}/library")

import pytest  # noqa: E402 - it is in the library


class Tally:
    """Counts passed tests, and records failed ones."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.failed: dict[str, str] = {}
        self.skipped: list[str] = []

    @pytest.hookimpl(trylast=True)  # marks deselect before
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Take some cases of each test, and give every one the time that emulation takes."""
        taken = choose_cases([item.nodeid for item in items])
        items[:] = [item for item in items if item.nodeid in taken]
        for item in items:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S), append=False)

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = report.nodeid.removeprefix("tests/")
        if report.failed:
            print(f"\n{name} ({report.when}):\n{report.longreprtext[-3000:]}", flush=True)
            self.failed[name] = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr)[-400:]
        elif report.skipped:
            self.skipped.append(name)
        elif report.when == "call":
            self.passed[name.split("/")[0]] += 1


def choose_cases(names: list[str]) -> set[str]:
    """Choose at most `MAX_CASES` of each test, evenly from all its cases."""
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        cases[name.partition("[")[0]].append(name)
    return {name for listed in cases.values() for name in listed[:: -(-len(listed) // MAX_CASES)]}


def main() -> None:
    """Run all tests, and print the tally."""
    os.chdir(f"{KIT}/tree")
    tally = Tally()
    marks = "container and not gvisor and not long"
    # Newer Pythons than the tests were written for emit more warnings.
    options = ["-p", "no:cacheprovider", "-q", "-m", marks, "-W", "ignore::DeprecationWarning"]
    code = pytest.main([*options, "--durations=12", *sys.argv[1:]], plugins=[tally])
    passed = {name: count for name, count in tally.passed.items() if count}
    outcome = {"code": int(code), "passed": passed, "failed": tally.failed, "skipped": tally.skipped}
    print(f"\n{json.dumps(outcome)}", flush=True)
    sys.exit(int(code))


if __name__ == "__main__":
    main()
