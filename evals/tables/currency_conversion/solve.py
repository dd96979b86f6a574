"""The reference solution's program at its desk: look the rates up, and write the workbook with live sums."""

from __future__ import annotations

import csv
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
import xlsxwriter  # type: ignore[import-not-found]

HEAD = ("No", "Date", "Employee", "Category", "Currency", "Amount", "Rate", "EUR")
MONTHS = ("January", "February", "March")


def main() -> None:
    """Write Converted.xlsx."""
    rates = read_rates()
    rows = [(*row, find_rate(rates, row[4], row[1])) for row in read_expenses()]
    book = xlsxwriter.Workbook("Converted.xlsx")
    money, day_format = book.add_format({"num_format": "#,##0.00"}), book.add_format({"num_format": "yyyy-mm-dd"})
    sheet = book.add_worksheet("Expenses")
    sheet.write_row(0, 0, HEAD)
    for at, row in enumerate(rows, 1):
        sheet.write(at, 0, row[0])
        sheet.write_datetime(at, 1, datetime.combine(row[1], datetime.min.time()), day_format)
        sheet.write_row(at, 2, row[2:7])
        sheet.write_formula(at, 7, f"=ROUND(F{at + 1}*G{at + 1},2)", money, euros(row))
    write_summary(book.add_worksheet("Summary"), rows, money)
    book.close()


def write_summary(sheet: Any, rows: list[tuple[Any, ...]], money: Any) -> None:
    """Write sums by category and month, as formulas with their values."""
    last, categories = len(rows) + 1, sorted({row[3] for row in rows})
    sheet.write_row(0, 0, ("Category", *MONTHS, "Total"))
    for at, category in enumerate([*categories, "Total"], 1):
        sheet.write(at, 0, category)
        own = [row for row in rows if category in (row[3], "Total")]
        for month in range(1, 4):
            value = round(sum(euros(row) for row in own if row[1].month == month), 2)
            column = "ABCD"[month]
            dates = f"Expenses!$B$2:$B${last}"
            formula = (
                f"=SUMIFS(Expenses!$H$2:$H${last},Expenses!$D$2:$D${last},$A{at + 1},"
                f'{dates},">="&DATE(2025,{month},1),{dates},"<"&DATE(2025,{month + 1},1))'
            )
            formula = f"=SUM({column}2:{column}6)" if category == "Total" else formula
            sheet.write_formula(at, month, formula, money, value)
        total = round(sum(euros(row) for row in own), 2)
        sheet.write_formula(at, 4, f"=SUM(B{at + 1}:D{at + 1})", money, total)


def euros(row: tuple[Any, ...]) -> float:
    """Return the value of an expense in EUR."""
    return float(int(row[5] * row[6] * 100 + 0.5) / 100)


def read_rates() -> dict[tuple[str, date], float]:
    """Read the EUR value of one unit."""
    with Path("rates.csv").open(newline="") as file:
        return {
            (row["Currency"], date.fromisoformat(row["Date"])): float(row["Rate"]) / int(row["Unit"])
            for row in csv.DictReader(file)
        }


def find_rate(rates: dict[tuple[str, date], float], currency: str, day: date) -> float:
    """Return the rate of a day, or the last one before it."""
    while currency != "EUR" and (currency, day) not in rates:
        day -= timedelta(days=1)
    return 1.0 if currency == "EUR" else rates[currency, day]


def read_expenses() -> list[tuple[Any, ...]]:
    """Read the expenses, without headings and sums."""
    rows = []
    for row in openpyxl.load_workbook("expenses.xlsx")["Travel"].iter_rows(2, values_only=True):
        if isinstance(row[0], int):
            day = date.fromisoformat(row[1]) if isinstance(row[1], str) else row[1].date()
            rows.append((row[0], day, *row[2:6]))
    return sorted(rows)


if __name__ == "__main__":
    main()
