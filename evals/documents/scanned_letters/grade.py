"""Grade the register: every letter once, with its sender, reference, dates and amount."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["letters"]
    try:
        faults = find_faults(truth, read_rows(Path("delivered/register.csv")))
    except (OSError, ValueError, KeyError, csv.Error) as e:
        faults = [f"register.csv cannot be read as a table with the columns of the brief: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table with any delimiter; names of columns become lower case."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    rows = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter)
    return [{str(name).strip().lower(): str(value or "").strip() for name, value in row.items()} for row in rows]


def find_faults(truth: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[str]:
    """Compare every letter with the truth."""
    files, expected = [row["file"].rpartition("/")[2] for row in rows], sorted(each["file"] for each in truth)
    if files != expected:
        return [f"The rows are {files}; {expected} are expected, in this order."]
    faults = []
    for row, wanted in zip(rows, sorted(truth, key=lambda each: str(each["file"])), strict=True):
        if letters(row["sender"]) not in (letters(wanted["sender"]), letters(wanted["sender"] + "Ltd")):
            faults.append(f"{wanted['file']}: the sender is {wanted['sender']}, not {row['sender']!r}.")
        for name in ("reference", "date", "due"):
            if row[name].replace(" ", "").upper() != wanted[name]:
                faults.append(f"{wanted['file']}: the {name} is {wanted[name]}, not {row[name]!r}.")
        if cents(row["amount"]) != wanted["amount"]:
            faults.append(f"{wanted['file']}: the amount is {wanted['amount'] / 100:.2f}, not {row['amount']!r}.")
    return faults


def letters(text: str) -> str:
    """Return the letters of a name."""
    return re.sub(r"[^a-z]", "", text.lower())


def cents(text: str) -> int | None:
    """Read an amount with a point for decimals, whatever its separators and unit."""
    text = re.sub(r"(?i)eur|[€\s,]", "", text)
    return round(float(text) * 100) if re.fullmatch(r"\d+(\.\d{1,2})?", text) else None


if __name__ == "__main__":
    main()
