"""Judge fix.patch by tests that the worker has not seen; print one JSON object."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

TIMEOUT_S = 60


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Apply the patch to a clean copy; run the visible tests and the unseen ones."""
    patch = Path("delivered/fix.patch")
    if not patch.is_file() or not patch.stat().st_size:
        yield "fix.patch is missing or empty."
        return
    shutil.copytree("hidden/repo", "work")
    listed = run(["git", "apply", "--numstat", "-z", "../delivered/fix.patch"])
    paths = [entry.split("\t")[-1] for entry in listed.stdout.split("\0") if entry]
    applied = run(["git", "apply", "--whitespace=nowarn", "../delivered/fix.patch"])
    if listed.returncode or applied.returncode:
        yield "fix.patch does not apply to the repository as it was."
        return
    for path in paths:
        if not re.fullmatch(r"freight/\w+\.py", path):
            yield f"fix.patch changes {path}, which is not a program below freight/."
    shutil.rmtree("work/tests")
    shutil.copytree("hidden/repo/tests", "work/tests")
    if not is_green("tests.test_quote", 6):
        yield "The visible tests fail with fix.patch."
    for name in ("test_unseen.py", "unseen.json"):
        shutil.copy(f"hidden/unseen/{name}", "work/tests")
    if not is_green("tests.test_unseen", 1):
        yield "Quotes, labels or manifests of other parcels are wrong with fix.patch."


def is_green(module: str, count: int) -> bool:
    """Return whether all tests of a module ran and passed."""
    try:
        done = run(["python3", "-B", "-m", "unittest", module])
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and f"Ran {count} test" in done.stderr


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy."""
    return subprocess.run(argv, cwd="work", capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


if __name__ == "__main__":
    main()
