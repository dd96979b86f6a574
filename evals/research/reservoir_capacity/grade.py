"""Compare capacities.csv with the truth, row by row; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("reservoir", "capacity", "source", "date")


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare each reservoir's figure, source and date."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    rows = read_rows(Path("delivered/capacities.csv"))
    if rows is None:
        yield "capacities.csv is missing or has other columns."
        return
    if [row["reservoir"] for row in rows] != [name for name, *_ in expected]:
        yield "capacities.csv does not have each reservoir once, in the order of reservoirs.csv."
    found = {row["reservoir"]: row for row in rows}
    for name, capacity, source, day in expected:
        row = found.get(name, dict.fromkeys(COLUMNS, ""))
        if number(row["capacity"]) != float(capacity):
            yield f"{name}: the capacity is {row['capacity'][:40]!r}, not {capacity}."
        if row["source"].rstrip("/") != source:
            yield f"{name}: the source is {row['source'][:80]!r}, not {source}."
        if row["date"] != day:
            yield f"{name}: the date is {row['date'][:40]!r}, not {day}."


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
    """Return a number to two decimals; separators of thousands are ignored."""
    try:
        return round(float(text.replace(",", "")), 2)
    except ValueError:
        return float("nan")


if __name__ == "__main__":
    main()
