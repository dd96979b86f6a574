"""Write programs that the grader must fail: each is fast or right, but not both."""

from __future__ import annotations

import json
from pathlib import Path

EDITS = {
    "last-of-equal-minutes": (
        '.setdefault(int(each["minute"]), float(each["offset"]))',
        '[int(each["minute"])] = float(each["offset"])',
    ),
    "void-used": ('if each["grade"] != "void":', "if True:"),
    "later-minute-only": ("at = bisect_right(times, minute)", "at = bisect_right(times, minute - 1)"),
    "a-day-too-long": ("within(minute - DAY + 1, minute)", "within(minute - DAY, minute)"),
    "sorted-readings": (
        "    for reading in readings:\n        sensor,",
        '    for reading in sorted(readings, key=lambda each: int(each["minute"])):\n        sensor,',
    ),
}
GUESS = """
        if place >= 1600:
            writer.writerow([reading["minute"], reading["sensor"], reading["value"], reading["value"], "0.000000"])
            continue
"""
"""Computes what a slow program can, and prints the right number of lines."""


def main() -> None:
    """Write spoilt/VARIANT/correct.py."""
    source = Path("delivered/correct.py").read_text()
    for name, (old, new) in EDITS.items():
        if old not in source:
            raise ValueError(f"the reference solution does not contain {old!r}")
        write(name, source.replace(old, new))
    slow = json.loads(Path("hidden/truth.json").read_text())["program"]
    write("still-slow", slow)
    head = "    for place, reading in enumerate(readings):\n"
    if head not in slow:
        raise ValueError(f"the slow program does not contain {head!r}")
    write("guessed-after-the-beginning", slow.replace(head, head + GUESS))


def write(name: str, source: str) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    Path("spoilt", name, "correct.py").write_text(source)


if __name__ == "__main__":
    main()
