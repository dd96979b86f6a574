"""Compare readings.csv with what the dials show; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("panel", "dial", "unit", "value", "alarm")
TOLERANCE = 0.015


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare which dials are listed, in which order, and what they show."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    rows = read_rows(Path("delivered/readings.csv"))
    if rows is None:
        yield "readings.csv is missing or has other columns."
        return
    dials = [(row["panel"].removesuffix(".png"), row["dial"].casefold()) for row in rows]
    if dials != [(panel, dial.casefold()) for panel, dial, *_ in expected]:
        yield "readings.csv does not list each dial of each panel that is not under test, in order."
    found = dict(zip(dials, rows, strict=True))
    for panel, dial, unit, value, alarm, span in expected:
        row = found.get((panel, dial.casefold()), dict.fromkeys(COLUMNS, ""))
        if not abs(number(row["value"]) - value) <= TOLERANCE * span:
            yield f"{panel}, {dial}: {row['value'][:30]!r} is too far from {value:g}."
        if row["alarm"].lower() != alarm:
            yield f"{panel}, {dial}: the alarm is {row['alarm'][:30]!r}, not {alarm}."
        if row["unit"].casefold().strip("()°") != unit.casefold():
            yield f"{panel}, {dial}: the unit is {row['unit'][:30]!r}, not {unit}."


def read_rows(path: Path) -> list[dict[str, str]] | None:
    """Return the rows with lower-case heads, or None if the table is malformed."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError:
        return None
    rows = [{(key or "").strip().lower(): str(value or "").strip() for key, value in row.items()}
            for row in csv.DictReader(text.splitlines())]  # fmt: skip
    return rows if rows and set(COLUMNS) <= set(rows[0]) else None


def number(text: str) -> float:
    """Return a number; separators of thousands are ignored."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")


if __name__ == "__main__":
    main()
