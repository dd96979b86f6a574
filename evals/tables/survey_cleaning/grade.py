"""Grade the cleaned survey: every person once, with the right values, and the summary."""

from __future__ import annotations

import csv
import json
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path
from typing import Any

COLUMNS = ("email", "department", "age", "satisfaction", "wave", "submitted")


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["rows"]
    faults = []
    for name, grade in (("clean.csv", grade_rows), ("summary.csv", grade_summary)):
        try:
            faults += grade(truth, read_rows(Path("delivered", name)))
        except (OSError, ValueError, KeyError, csv.Error) as e:
            faults.append(f"{name} cannot be read as a table with the columns of the brief: {e!r}.")
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table; names of columns are compared without case."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{str(k).strip().lower(): str(v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]


def grade_rows(truth: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[str]:
    """Compare every person with the truth."""
    rows = sorted(rows, key=lambda row: row["email"])
    emails, expected = [row["email"] for row in rows], [each["email"] for each in truth]
    if emails != expected:
        missing, extra = sorted(set(expected) - set(emails)), sorted(set(emails) - set(expected))
        return [f"clean.csv: {len(rows)} rows, {len(truth)} expected; missing {missing[:5]}, too many {extra[:5]}."]
    faults = []
    for row, wanted in zip(rows, truth, strict=True):
        for name in COLUMNS[1:]:
            value = "" if wanted[name] is None else str(wanted[name])
            if not same(row[name], value):
                faults.append(f"clean.csv: {wanted['email']}, {name}: {value!r} is expected, not {row[name]!r}.")
    return faults


def grade_summary(truth: list[dict[str, Any]], rows: list[dict[str, str]]) -> list[str]:
    """Compare the summary with one of the truth."""
    names = [*sorted({each["department"] for each in truth}), "All"]
    if [row["department"] for row in rows] != names:
        return [f"summary.csv: the rows are {[row['department'] for row in rows]}; {names} are expected."]
    faults = []
    for row, name in zip(rows, names, strict=True):
        part = [each for each in truth if name in (each["department"], "All")]
        ages = [each["age"] for each in part if each["age"] is not None]
        wanted = {
            "responses": str(len(part)),
            "satisfaction": str(mean([each["satisfaction"] for each in part], "0.01")),
            "age": str(mean(ages, "0.1")),
        }
        for column, value in wanted.items():
            if not same(row[column], value):
                faults.append(f"summary.csv: {name}, {column}: {value} is expected, not {row[column]!r}.")
    return faults


def mean(values: list[int], places: str) -> Decimal:
    """Return a mean, rounded half up."""
    return (Decimal(sum(values)) / len(values)).quantize(Decimal(places), ROUND_HALF_UP)


def same(value: str, wanted: str) -> bool:
    """Compare texts, and numbers as numbers: 42.0 is 42."""
    try:
        return Decimal(value) == Decimal(wanted)
    except InvalidOperation:
        is_time = len(wanted) == len("2025-01-31 12:00")
        return value == wanted or (is_time and value.replace("T", " ")[: len(wanted)] == wanted)


if __name__ == "__main__":
    main()
