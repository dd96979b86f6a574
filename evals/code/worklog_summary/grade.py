"""Judge worklog.py by runs on logs that the worker has not seen; print one JSON object."""

from __future__ import annotations

import csv
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

TIMEOUT_S = 20


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())[:20]
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare each run with what the specification demands, and the old commands with the old program."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    if not Path("delivered/worklog.py").is_file():
        yield "worklog.py is missing."
        return
    Path("original.py").write_text(truth["program"])
    for name, log in truth["logs"].items():
        Path(name).write_text(log)
        for options in choices(truth["people"]):
            expected = expect(log, *options)
            argv = [
                name,
                *(["--by", options[0]] if options[0] else []),
                *(["--person", options[1]] if options[1] else []),
            ]
            code, out, error = run("delivered/worklog.py", "summary", *argv)
            if (code, out.splitlines()) != (expected[0], expected[1].splitlines()):
                yield f"`summary {' '.join(argv)}` gives {describe(code, out, *expected[:2])}."
            elif expected[2] not in error:
                yield f"`summary {' '.join(argv)}` does not say {expected[2]!r} on standard error."
        for argv in (["list", name], ["list", name, "--project", "mill"], ["people", name]):
            if run("delivered/worklog.py", *argv)[:2] != run("original.py", *argv)[:2]:
                yield f"`{' '.join(argv)}` no longer prints what it did."


def choices(people: list[str]) -> list[tuple[str, str]]:
    """Return the options of the runs: what to sum by, and whom to count."""
    return [("", ""), ("day", people[0]), ("project", ""), ("project", people[1]), ("day", "Nobody")]


def expect(log: str, by: str, person: str) -> tuple[int, str, str]:
    """Return exit code, standard output, and the required text on standard error."""
    counted: dict[tuple[str, str], set[int]] = defaultdict(set)
    for number, text in enumerate(log.splitlines(), 1):
        if not text.strip() or text.startswith("#"):
            continue
        [row] = csv.reader([text])
        start, end = (datetime.strptime(each, "%Y-%m-%d %H:%M") for each in row[:2])
        if end <= start:
            return 2, "", f"line {number}: end is not after start"
        if (len(row) > 4 and row[4].strip().lower() == "cancelled") or person not in ("", row[3]):
            continue
        while start < end:
            key = row[2] if by == "project" else f"{start:%Y-%m-%d}"
            counted[key, row[3]].add(int((start - datetime(2026, 1, 1)) / timedelta(minutes=1)))
            start += timedelta(minutes=1)
    minutes: dict[str, int] = defaultdict(int)
    for (key, _), covered in counted.items():
        minutes[key] += len(covered)
    lines = [f"{key}\t{hours(minutes[key])}\n" for key in sorted(minutes)]
    return 0, "".join([*lines, f"total\t{hours(sum(minutes.values()))}\n"]), ""


def hours(minutes: int) -> str:
    """Write minutes as hours, rounded to two decimals."""
    hundredths = (minutes * 100 + 30) // 60
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def run(program: str, *argv: Any) -> tuple[int, str, str]:
    """Run a program; return exit code and output."""
    try:
        done = subprocess.run(["python3", "-B", program, *argv], capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return -1, "", ""
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def describe(code: int, out: str, expected_code: int, expected: str) -> str:
    """Describe the first difference of a run."""
    if code != expected_code:
        return f"exit code {code}, not {expected_code}"
    lines = zip_longest(out.splitlines(), expected.splitlines(), fillvalue="nothing")
    return next(f"{one[:60]!r}, not {other!r}" for one, other in lines if one != other)


if __name__ == "__main__":
    main()
