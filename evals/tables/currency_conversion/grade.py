"""Grade the conversion: every rate and amount, and sums that follow when amounts change."""

from __future__ import annotations

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

DELIVERED = "delivered/Converted.xlsx"
CATEGORIES = ("Flights", "Hotels", "Meals", "Taxis", "Trains")
RATE_TOLERANCE = 0.000001
"""A rate for 100 units has four decimals, so one for a single unit has six."""


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())["expenses"]
    try:
        faults = find_faults(truth)
    except Exception as e:  # noqa: BLE001 - whatever a file does to its parser is a fault of the file
        faults = [f"Converted.xlsx cannot be read: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def find_faults(truth: list[dict[str, Any]]) -> list[str]:
    """Compare the workbook as it is, and once more with other amounts."""
    book = openpyxl.load_workbook(DELIVERED)
    if missing := [name for name in ("Expenses", "Summary") if name not in book.sheetnames]:
        return [f"There is no sheet {name}." for name in missing]
    sheet = book["Expenses"]
    names = [str(cell.value or "").strip().lower() for cell in sheet[1]]
    if absent := {"no", "date", "employee", "category", "currency", "amount", "rate", "eur"} - set(names):
        return [f"The sheet Expenses lacks the columns {sorted(absent)}."]
    rows = [row for row in range(2, sheet.max_row + 1) if any(cell.value is not None for cell in sheet[row])]
    if [sheet.cell(row, names.index("no") + 1).value for row in rows] != [each["no"] for each in truth]:
        return [f"The sheet Expenses has not the {len(truth)} expenses in their order, and nothing else."]
    values = calculate(book)
    faults = [fault for row, each in zip(rows, truth, strict=True) for fault in grade_row(values, names, row, each)]
    faults += [
        f"Expenses: the EUR of row {row} is no formula."
        for row in rows
        if not str(sheet.cell(row, names.index("eur") + 1).value).startswith("=")
    ]
    faults += grade_summary(values, names, rows, "as delivered")
    for row in rows[::7]:
        sheet.cell(row, names.index("amount") + 1).value += 100
    return faults + grade_summary(calculate(book), names, rows, "after amounts were changed")


def calculate(book: Any) -> Any:
    """Have LibreOffice calculate a workbook whose saved values are dropped."""
    book.save("plain.xlsx")
    argv = ["soffice", "--headless", "--convert-to", "xlsx", "--outdir", "calculated", "plain.xlsx"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    return openpyxl.load_workbook("calculated/plain.xlsx", data_only=True)


def grade_row(book: Any, names: list[str], row: int, wanted: dict[str, Any]) -> list[str]:
    """Compare one expense."""
    value = {name: book["Expenses"].cell(row, at + 1).value for at, name in enumerate(names)}
    faults = [name for name in ("employee", "category", "currency") if value[name] != wanted[name]]
    day = value["date"].date().isoformat() if isinstance(value["date"], datetime) else str(value["date"])
    faults += ["date"] if day != wanted["date"] else []
    limits = {"amount": 0.001, "rate": RATE_TOLERANCE, "eur": 0.011}
    known = {**wanted, "eur": wanted["amount"] * wanted["rate"]}
    for name, limit in limits.items():
        if not isinstance(value[name], int | float) or abs(value[name] - known[name]) > limit:
            faults.append(name)
    shown = {name: value[name] for name in faults}
    return [f"Expense {wanted['no']} is wrong: {shown}."] if faults else []


def grade_summary(book: Any, names: list[str], rows: list[int], title: str) -> list[str]:
    """Compare the sums with the EUR of the sheet Expenses."""
    sheet, sums = book["Expenses"], dict.fromkeys(((c, m) for c in CATEGORIES for m in (1, 2, 3)), 0.0)
    for row in rows:
        category, day, euros = (sheet.cell(row, names.index(name) + 1).value for name in ("category", "date", "eur"))
        month = day.month if isinstance(day, datetime) else int(str(day)[5:7])
        sums[category, month] += euros
    table = [[sums[category, month] for month in (1, 2, 3)] for category in CATEGORIES]
    table = [[*row, sum(row)] for row in table]
    table.append([sum(column) for column in zip(*table, strict=True)])
    faults = []
    for at, wanted in enumerate(table, 2):
        label, *found = (book["Summary"].cell(at, column).value for column in range(1, 6))
        if str(label).strip() != (*CATEGORIES, "Total")[at - 2]:
            faults.append(f"Summary!A{at} is {label!r} ({title}).")
        for place, value, sum_wanted in zip("BCDE", found, wanted, strict=True):
            if not isinstance(value, int | float) or abs(value - sum_wanted) > 0.02:
                faults.append(f"Summary!{place}{at} is {value}; {sum_wanted:.2f} is expected ({title}).")
    return faults


if __name__ == "__main__":
    main()
