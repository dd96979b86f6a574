"""Compare correct.py with the slow program on hidden data, and time it; print one JSON object."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

SLOW_TIMEOUT_S = 200


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare on small data; on large data measure the time, and compare a part that the slow program can do."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    if not Path("delivered/correct.py").is_file():
        yield "correct.py is missing."
        return
    Path("original.py").write_text(truth["program"])
    for name in ("one", "two"):
        expected, got = run("original.py", f"hidden/{name}"), run("delivered/correct.py", f"hidden/{name}")
        if got != expected:
            yield f"The output for the data {name} differs{first_difference(expected, got)}."
    start = time.monotonic()
    got = run("delivered/correct.py", "hidden/large", truth["seconds"])
    if got is None:
        yield f"The large data was not done in {truth['seconds']} seconds."
    elif got.count(b"\n") != 60_001:
        yield f"The output for the large data has {got.count(bytes([10]))} lines, not 60001."
    else:
        yield from find_large_faults(got)
    Path("seconds.txt").write_text(f"{time.monotonic() - start:.2f}")


def find_large_faults(got: bytes) -> Iterator[str]:
    """Compare the beginning of the large output: readings depend on earlier lines only."""
    head = Path("head")
    head.mkdir()
    lines = Path("hidden/large/readings.csv").read_text().splitlines(keepends=True)
    (head / "readings.csv").write_text("".join(lines[:1201]))
    (head / "calibrations.csv").write_bytes(Path("hidden/large/calibrations.csv").read_bytes())
    expected = run("original.py", "head") or b""
    if got[: len(expected)] != expected:
        yield f"The output for the large data differs{first_difference(expected, got)}."


def run(program: str, folder: str, seconds: float = SLOW_TIMEOUT_S) -> bytes | None:
    """Run a program; return its output, or None if it failed or took too long."""
    try:
        done = subprocess.run(["python3", "-B", program, folder], capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def first_difference(expected: bytes | None, got: bytes | None) -> str:
    """Describe the first line that differs."""
    if got is None or expected is None:
        return ": the program failed or took too long"
    for number, (one, other) in enumerate(zip(expected.splitlines(), got.splitlines()), 1):  # noqa: B905
        if one != other:
            return f" in line {number}: {other[:80]!r} instead of {one[:80]!r}"
    return " in its length"


if __name__ == "__main__":
    main()
