"""Compare reorder.csv with the cards; print one JSON object."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("item", "name", "free", "missing")


def main() -> None:
    """Print the verdict."""
    faults = list(find_faults())
    print(json.dumps({"passed": not faults, "faults": faults}))


def find_faults() -> Iterator[str]:
    """Compare which items are listed, their figures and their order."""
    expected = json.loads(Path("hidden/truth.json").read_text())["rows"]
    rows = read_rows(Path("delivered/reorder.csv"))
    if rows is None:
        yield "reorder.csv is missing or has other columns."
        return
    items = [str(item) for item, *_ in expected]
    for row in rows:
        if row["item"] not in items:
            yield f"Item {row['item'][:30]!r} need not be reordered."
    found = {row["item"]: row for row in rows}
    for item, name, free, missing in expected:
        if str(item) not in found:
            yield f"Item {item} is missing."
            continue
        row = found[str(item)]
        if row["name"].casefold() != name.casefold():
            yield f"Item {item} is called {row['name'][:40]!r}, not {name}."
        elif (number(row["free"]), number(row["missing"])) != (free, missing):
            yield f"Item {item}: {row['free'][:20]} free and {row['missing'][:20]} missing, not {free} and {missing}."
    if not set(items) ^ set(found) and [row["item"] for row in rows] != items:
        yield "The rows are not in the order of the cards, or one is there twice."


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
