"""Write wrong but plausible deliveries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

REFERENCE, KIND, BANK, LEDGER, DIFFERENCE = 2, 3, 4, 5, 6


def main() -> None:
    """Write every variant."""
    write("signs-turned", turn_signs)
    write("row-missed", lambda book: book["Differences"].delete_rows(book["Differences"].max_row - 1))
    write("duplicate-as-missing", lambda book: rename(book, "duplicate in ledger", "missing in bank"))
    write("typed-total", type_total)
    write("closing-sum-counted", lambda book: add(book, "Balances", 2, 2, 1000.0))
    write("amount-of-the-ledger", lambda book: copy_amount(book["Differences"]))


def turn_signs(book: Any) -> None:
    """Take debit for credit in one account."""
    sheet = book["Differences"]
    for row in range(2, sheet.max_row):
        if sheet.cell(row, 1).value == sheet.cell(2, 1).value:
            sheet.cell(row, BANK).value *= -1


def rename(book: Any, old: str, new: str) -> None:
    """Give a kind of difference another name."""
    sheet = book["Differences"]
    for row in range(2, sheet.max_row):
        if sheet.cell(row, KIND).value == old:
            sheet.cell(row, KIND, new)


def type_total(book: Any) -> None:
    """Type the total instead of calculating it."""
    sheet = book["Differences"]
    rows = range(2, sheet.max_row)
    total = sum(sheet.cell(row, BANK).value - sheet.cell(row, LEDGER).value for row in rows)
    sheet.cell(sheet.max_row, DIFFERENCE, round(total, 2))


def add(book: Any, name: str, row: int, column: int, amount: float) -> None:
    """Add something to a cell."""
    book[name].cell(row, column).value += amount


def copy_amount(sheet: Any) -> None:
    """Repeat the ledger's amount for the bank where amounts differ."""
    row = next(row for row in range(2, sheet.max_row) if sheet.cell(row, KIND).value == "amount")
    sheet.cell(row, BANK, sheet.cell(row, LEDGER).value)


def write(name: str, change: Callable[[Any], object]) -> None:
    """Write a variant."""
    book = openpyxl.load_workbook("delivered/Reconciliation.xlsx")
    change(book)
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    book.save(folder / "Reconciliation.xlsx")


if __name__ == "__main__":
    main()
