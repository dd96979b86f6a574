"""Judge fix.patch by parcels that the worker has not seen; print one JSON object."""

from __future__ import annotations

import ctypes
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT_S = 60
PR_SET_DUMPABLE = 4
"""The option of prctl that decides whether other processes of the user may read the memory."""
RUNNER = """
import os, sys, unittest
nonce = sys.stdin.read()
result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromName(sys.argv[1]))
os.write(int(sys.argv[2]), f"{nonce} {result.testsRun} {result.wasSuccessful()} {len(result.skipped)}".encode())
"""
"""Reports the result on a descriptor: exit code and standard error could be those of the patched package."""
REPORT = """
import json, sys
from freight.label import label
from freight.manifest import grams_by_zone, litres
from freight.parcel import Parcel
from freight.quote import quote
parcels = [Parcel(weight, tuple(size), postcode) for weight, size, postcode in json.load(sys.stdin)]
json.dump([[quote(each), label(each), grams_by_zone([each]), litres([each])] for each in parcels], sys.stdout)
"""
"""Prints what the patched package says of parcels. It is compared here, where the package does not run."""


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
    cases = json.loads(Path("hidden/unseen.json").read_text())
    hide()
    if not is_green("tests.test_quote", 6):
        yield "The visible tests fail with fix.patch."
    if wrong := [case for case, values in zip(cases, report(cases), strict=True) if values != list_values(case)]:
        parcels = [f"{case['weight']} {' x '.join(case['size'])} to {case['postcode']}" for case in wrong]
        yield f"{len(wrong)} quotes, labels or manifests of other parcels are wrong with fix.patch, as of {parcels[0]}."


def hide() -> None:
    """Keep what has been read from the judged program: delete the files, and close this process's memory to it."""
    shutil.rmtree("hidden")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def is_green(module: str, count: int) -> bool:
    """Return whether all tests of a module ran and passed."""
    ours, theirs = os.pipe2(os.O_NONBLOCK)
    nonce = secrets.token_hex(16)
    try:
        run(["python3", "-B", "-c", RUNNER, module, str(theirs)], nonce, pass_fds=(theirs,))
        return os.read(ours, 1000).decode("utf-8", "replace") == f"{nonce} {count} True 0"
    except (subprocess.TimeoutExpired, BlockingIOError):
        return False
    finally:
        os.close(ours)
        os.close(theirs)


def report(cases: list[dict[str, Any]]) -> list[object]:
    """Return what the patched package says of each parcel, or `None` for each if it says nothing valid."""
    parcels = [[case["weight"], case["size"], case["postcode"]] for case in cases]
    try:
        done = run(["python3", "-B", "-c", REPORT], json.dumps(parcels))
        found = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError, RecursionError):
        found = None
    return found if isinstance(found, list) and len(found) == len(cases) else [None] * len(cases)


def list_values(case: dict[str, Any]) -> list[object]:
    """Return what it must say of one."""
    return [case["cents"], case["label"], case["by_zone"], case["litres"]]


def run(argv: list[str], fed: str = "", pass_fds: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a command in the copy."""
    return subprocess.run(
        argv, cwd="work", capture_output=True, text=True, timeout=TIMEOUT_S, check=False, input=fed, pass_fds=pass_fds
    )


if __name__ == "__main__":
    main()
