"""Grade the table of payable orders."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the result."""
    orders = json.loads(Path("hidden/truth.json").read_text())["orders"]
    truth = [
        each
        for each in orders
        if each["state"] == "Delivered" and not each["replaced"] and "2025-04-01" <= each["date"] <= "2025-06-30"
    ]
    try:
        faults = find_faults(truth, read_rows(Path("delivered/payable.csv")))
    except (OSError, ValueError, KeyError, csv.Error) as e:
        faults = [f"payable.csv cannot be read as a table with the columns of the brief: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table with any delimiter; names of columns become lower case."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter)
    return [{str(name).strip().lower(): str(value or "").strip() for name, value in row.items()} for row in rows]


def find_faults(truth: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[str]:
    """Compare every order."""
    numbers, expected = [row["order"] for row in rows], [each["number"] for each in truth]
    if numbers != expected:
        missing, extra = sorted(set(expected) - set(numbers)), sorted(set(numbers) - set(expected))
        return [f"{len(rows)} rows, {len(truth)} expected in order; missing {missing}, too many {extra}."]
    faults = []
    for row, wanted in zip(rows, truth, strict=True):
        for name in ("supplier", "date"):
            if row[name] != wanted[name]:
                faults.append(f"{wanted['number']}: the {name} is {wanted[name]}, not {row[name]!r}.")
        if cents(row["payable"]) != wanted["payable"]:
            faults.append(f"{wanted['number']}: {wanted['payable'] / 100:.2f} is payable, not {row['payable']!r}.")
    return faults


def cents(text: str) -> int | None:
    """Read an amount with a point for decimals, whatever its separators and unit."""
    text = re.sub(r"(?i)eur|[€\s,]", "", text)
    return round(float(text) * 100) if re.fullmatch(r"\d+(\.\d{1,2})?", text) else None


if __name__ == "__main__":
    main()
