"""Write wrong but plausible deliveries."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]

DAY, CURRENCY, AMOUNT, RATE, EUR = 2, 5, 6, 7, 8


def main() -> None:
    """Write every variant."""
    write("unit-ignored", ignore_unit)
    write("next-rate-on-weekends", use_next_rate)
    write("typed-sums", type_sums)
    write("row-missed", lambda book: book["Expenses"].delete_rows(40))
    write("sum-one-row-short", shorten_sum)
    write("rate-inverted", invert)
    write("subtotal-kept", lambda book: book["Expenses"].append(("Subtotal", None, None, None, "mixed", 1000)))


def ignore_unit(book: Any) -> None:
    """Take the rate of 100 units for that of one."""
    sheet = book["Expenses"]
    for row in range(2, sheet.max_row + 1):
        if sheet.cell(row, CURRENCY).value in ("JPY", "SEK"):
            sheet.cell(row, RATE).value *= 100


def use_next_rate(book: Any) -> None:
    """Give weekends a rate that differs a little from the right one."""
    sheet = book["Expenses"]
    for row in range(2, sheet.max_row + 1):
        is_weekend = sheet.cell(row, DAY).value.weekday() > 4
        if is_weekend and sheet.cell(row, CURRENCY).value in ("USD", "GBP", "CHF"):
            sheet.cell(row, RATE).value *= 1.005


def type_sums(book: Any) -> None:
    """Type the sums instead of calculating them."""
    values = openpyxl.load_workbook("delivered/Converted.xlsx", data_only=True)["Summary"]
    for row in book["Summary"]["B2:E7"]:
        for cell in row:
            cell.value = values[cell.coordinate].value


def shorten_sum(book: Any) -> None:
    """Leave the last category out of the totals of the months."""
    for column in "BCD":
        book["Summary"][f"{column}7"] = f"=SUM({column}2:{column}5)"


def invert(book: Any) -> None:
    """Divide by the rate of the dollar."""
    sheet = book["Expenses"]
    for row in range(2, sheet.max_row + 1):
        if sheet.cell(row, CURRENCY).value == "USD":
            sheet.cell(row, RATE).value = 1 / sheet.cell(row, RATE).value


def write(name: str, change: Callable[[Any], object]) -> None:
    """Write a variant."""
    book = openpyxl.load_workbook("delivered/Converted.xlsx")
    change(book)
    folder = Path("spoilt", name)
    folder.mkdir(parents=True)
    book.save(folder / "Converted.xlsx")


if __name__ == "__main__":
    main()
