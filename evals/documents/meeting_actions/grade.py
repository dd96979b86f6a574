"""Grade the register: owner, due date, status and origin of every action."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

COLUMNS = {"number", "action", "owner", "due", "status", "raised"}
FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d %B %Y", "%d.%m.%Y")


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["actions"]
    try:
        faults = find_faults(truth, openpyxl.load_workbook("delivered/Actions.xlsx", data_only=True))
    except Exception as e:  # noqa: BLE001 - whatever a file does to its parser is a fault of the file
        faults = [f"Actions.xlsx cannot be read: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def find_faults(truth: list[dict[str, Any]], book: Any) -> list[str]:
    """Compare every row with the truth."""
    if "Actions" not in book.sheetnames:
        return ["There is no sheet named Actions."]
    head, *rows = book["Actions"].iter_rows(values_only=True)
    names = [str(cell or "").strip().lower() for cell in head]
    if not set(names) >= COLUMNS:
        return [f"The columns are {names}."]
    table = [dict(zip(names, row, strict=True)) for row in rows if any(cell is not None for cell in row)]
    numbers = [str(row["number"]).strip() for row in table]
    wanted_numbers = [each["number"] for each in truth]
    if numbers != wanted_numbers:
        return [f"The rows are {numbers}; {wanted_numbers} are expected, in this order."]
    faults = []
    for row, wanted in zip(table, truth, strict=True):
        for name in ("owner", "status", "due", "raised"):
            value = as_date(row[name]) if name in ("due", "raised") else " ".join(str(row[name]).split())
            if value.lower() != wanted[name].lower():
                faults.append(f"{wanted['number']}, {name}: {wanted[name]} is expected, not {row[name]}.")
        if not set(words(str(row["action"] or ""))) & set(words(wanted["task"])):
            faults.append(f"{wanted['number']}: the action is {wanted['task']!r}, not {row['action']!r}.")
    return faults


def words(text: str) -> list[str]:
    """Return the longer words of a text."""
    return re.findall(r"[a-z]{4,}", text.lower())


def as_date(value: object) -> str:
    """Write a date as YYYY-MM-DD, whatever form a cell gives it."""
    if isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    for shape in FORMATS:
        try:
            return datetime.strptime(str(value).strip(), shape).date().isoformat()
        except ValueError:
            continue
    return str(value)


if __name__ == "__main__":
    main()
