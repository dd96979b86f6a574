"""Runs the tests that failed in the last run once more, alone, and names those that then pass: each is a defect.

`make test` does not retry. `make test RETRY=1` does, for a machine that is busy with other work: a test that fails
again fails the run, and one that passes alone is printed as FLAKY.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def failed() -> set[str]:
    return set(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else set()


def main() -> int:
    """Run the failed tests again; return pytest's exit code."""
    before = failed()
    options = ["-m", "not long", "--last-failed", "--last-failed-no-failures", "none"]
    done = subprocess.run([sys.executable, "-m", "pytest", *options], check=False)
    flaky = sorted(before - failed()) if done.returncode in (0, 1) else []
    for test in flaky:
        print(f"FLAKY {test}: failed beside other tests, passed alone")
    print(f"{len(before)} retried, {len(flaky)} flaky")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
