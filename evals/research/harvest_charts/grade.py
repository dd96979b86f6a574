"""Compare harvest.csv with what was drawn; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("region", "crop", "tonnes", "source")


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare each figure within its tolerance, and each source."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    rows = read_rows(Path("delivered/harvest.csv"))
    if rows is None:
        yield "harvest.csv is missing or has other columns."
        return
    if [(row["region"], row["crop"].strip("*")) for row in rows] != [(region, crop) for region, crop, *_ in expected]:
        yield "harvest.csv does not have each region and crop once, in order."
    found = {(row["region"], row["crop"].strip("*")): row for row in rows}
    for region, crop, value, within, source in expected:
        row = found.get((region, crop), dict.fromkeys(COLUMNS, ""))
        if not abs(number(row["tonnes"]) - value) <= within:
            yield f"{region}, {crop}: {row['tonnes'][:40]!r} is not within {within:g} of {value:g} thousand tonnes."
        if row["source"] != source:
            yield f"{region}, {crop}: the source is {row['source'][:80]!r}, not {source}."


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
