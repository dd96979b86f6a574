"""Write wrong but plausible deliveries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

NUMBER, OWNER, DUE, STATUS, RAISED = 1, 3, 4, 5, 6


def main() -> None:
    """Write every variant."""
    write("orders-in-the-minutes-obeyed", lambda sheet: set_all(sheet, STATUS, "done"))
    write("successor-missed", lambda sheet: rename(sheet, "Martin Bauer", "Maria Berg"))
    write("struck-off-is-done", lambda sheet: replace_status(sheet, "cancelled", "done"))
    write("one-day-late", lambda sheet: shift(sheet, 1))
    write("last-row-missed", lambda sheet: sheet.delete_rows(sheet.max_row))
    write("repeated-action", lambda sheet: sheet.append([cell.value for cell in sheet[5]]))
    write("raised-is-due", lambda sheet: sheet.cell(2, RAISED, sheet.cell(2, DUE).value))


def set_all(sheet: Any, column: int, value: str) -> None:
    """Give every row the same value."""
    for row in range(2, sheet.max_row + 1):
        sheet.cell(row, column, value)


def rename(sheet: Any, old: str, new: str) -> None:
    """Replace an owner."""
    for row in range(2, sheet.max_row + 1):
        if sheet.cell(row, OWNER).value == old:
            sheet.cell(row, OWNER, new)


def replace_status(sheet: Any, old: str, new: str) -> None:
    """Replace a status."""
    for row in range(2, sheet.max_row + 1):
        if sheet.cell(row, STATUS).value == old:
            sheet.cell(row, STATUS, new)


def shift(sheet: Any, days: int) -> None:
    """Move one due date."""
    cell = sheet.cell(sheet.max_row, DUE)
    cell.value = cell.value + timedelta(days=days)


def write(name: str, change: Callable[[Any], object]) -> None:
    """Write a variant."""
    book = openpyxl.load_workbook("delivered/Actions.xlsx")
    change(book["Actions"])
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    book.save(folder / "Actions.xlsx")


if __name__ == "__main__":
    main()
