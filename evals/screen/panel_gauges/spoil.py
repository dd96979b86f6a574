"""Write wrong tables that the grader must fail: the test panel read, scales mistaken, needles misread."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

HEADS = ("Panel", "Dial", "Unit", "Value", "Alarm")


def main() -> None:
    """Write spoilt/VARIANT/readings.csv."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    rows = [row[:5] for row in truth["rows"]]
    spans = [row[5] for row in truth["rows"]]
    moved = [[*row[:3], row[3] + 0.03 * span, row[4]] for row, span in zip(rows, spans, strict=True)]
    write("test-panel-read", sorted([*rows, *(row[:5] for row in truth["test"])], key=lambda row: str(row[0])))
    write("one-scale-for-all", [*rows[:-1], [*rows[-1][:3], rows[-1][3] * 1.6, rows[-1][4]]])
    write("needles-misread", moved)
    write("no-alarms", [[*row[:4], "yes" if row[4] == "no" else "no"] for row in rows])
    write("one-dial-missed", rows[:-1])
    write("panels-swapped", [*rows[4:8], *rows[:4], *rows[8:]])


def write(name: str, rows: list[list[Any]]) -> None:
    """Write one variant."""
    Path("spoilt", name).mkdir(parents=True)
    with Path("spoilt", name, "readings.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADS, *rows])


if __name__ == "__main__":
    main()
