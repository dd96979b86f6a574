"""Compare what correct.py prints for hidden data with what the slow program prints; print one JSON object."""

from __future__ import annotations

import ctypes
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SMALL_TIMEOUT_S = 200
PR_SET_DUMPABLE = 4
"""The option of prctl that decides whether other processes of the user may read the memory."""
Files = dict[str, bytes]


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare all output on small and on large data, where the time is limited, too."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    if not Path("delivered/correct.py").is_file():
        yield "correct.py is missing."
        return
    given = {name: read_folder(Path("hidden", name)) for name in ("one", "two", "large")}
    hide()
    for name, expected in truth["expected"].items():
        got = run(given[name], SMALL_TIMEOUT_S)
        if got != expected.encode():
            yield f"The output for the data {name} differs{first_difference(expected.encode(), got)}."
    got = run(given["large"], truth["seconds"])
    if got is None:
        yield f"The large data was not done in {truth['seconds']} seconds."
    else:
        yield from find_large_faults(got, truth["large"])


def read_folder(folder: Path) -> Files:
    """Return the files of a folder."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def hide() -> None:
    """Keep what has been read from the judged program: delete the files, and close this process's memory to it."""
    shutil.rmtree("hidden")
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def run(given: Files, seconds: float) -> bytes | None:
    """Run the program on a copy of data, in a folder without anything else; return its output, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in given.items():
            Path(folder, name).write_bytes(data)
        argv = ["python3", "-B", str(Path("delivered/correct.py").resolve()), folder]
        try:
            done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
    return done.stdout if done.returncode == 0 else None


def find_large_faults(got: bytes, expected: list[str]) -> Iterator[str]:
    """Compare digests of every 1,000 lines: the slow program needs hours for the large data."""
    lines = got.splitlines(keepends=True)
    parts = [b"".join(lines[at : at + 1000]) for at in range(0, len(lines), 1000)]
    digests = [hashlib.sha256(part).hexdigest() for part in parts]
    if len(lines) != 60_001:
        yield f"The output for the large data has {len(lines)} lines, not 60001."
    elif wrong := [place for place, (one, other) in enumerate(zip(expected, digests, strict=True)) if one != other]:
        yield (
            f"The output for the large data differs in {len(wrong)} of {len(expected)} parts, "
            f"first after line {1000 * wrong[0]}."
        )


def first_difference(expected: bytes, got: bytes | None) -> str:
    """Describe the first line that differs."""
    if got is None:
        return ": the program failed or took too long"
    for number, (one, other) in enumerate(zip(expected.splitlines(), got.splitlines()), 1):  # noqa: B905
        if one != other:
            return f" in line {number}: {other[:80]!r} instead of {one[:80]!r}"
    return " in its length"


if __name__ == "__main__":
    main()
