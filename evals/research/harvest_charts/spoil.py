"""Write wrong tables that the grader must fail: units kept, the axis misread, the old edition, the footnote missed."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

Row = dict[str, str]


def main() -> None:
    """Write spoilt/VARIANT/harvest.csv."""
    with Path("delivered/harvest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    truth = json.loads(Path("hidden/truth.json").read_text())["rows"]
    exact = next(place for place, row in enumerate(truth) if row[3] == 0.01)
    small = min(range(0, 20, 5), key=lambda place: min(row[2] for row in truth[place : place + 5]))
    variants: dict[str, list[Row]] = {
        "unit-misread": [scaled(row, 0.001) if row["Region"] == rows[0]["Region"] else row for row in rows],
        "axis-from-zero": [scaled(row, 0.6) if place // 5 == small // 5 else row for place, row in enumerate(rows)],
        "footnote-missed": [scaled(row, 1.3) if place == exact else row for place, row in enumerate(rows)],
        "first-edition": [
            {**scaled(row, 0.88), "Source": row["Source"].replace("-r2", "")} if "-r2" in row["Source"] else row
            for row in rows
        ],
        "one-missed": rows[1:],
        "swapped": [{**row, "Tonnes": other["Tonnes"]} for row, other in zip(rows, swapped(rows), strict=True)],
    }
    for name, changed in variants.items():
        Path("spoilt", name).mkdir(parents=True)
        with Path("spoilt", name, "harvest.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(changed)


def scaled(row: Row, factor: float) -> Row:
    """Return a row with another figure."""
    return {**row, "Tonnes": f"{float(row['Tonnes']) * factor:.1f}"}


def swapped(rows: list[Any]) -> list[Any]:
    """Return the rows with the figures of two regions exchanged."""
    return [*rows[5:10], *rows[:5], *rows[10:]]


if __name__ == "__main__":
    main()
