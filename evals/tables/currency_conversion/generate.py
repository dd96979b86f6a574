"""Write a quarter of travel expenses and daily rates, and the brief that asks for EUR."""

from __future__ import annotations

import csv
import json
import random
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
from openpyxl.styles import Font  # type: ignore[import-untyped]

UNITS = {"USD": (1, 0.92), "GBP": (1, 1.17), "JPY": (100, 0.61), "SEK": (100, 8.9), "CHF": (1, 1.05)}
"""How many units of a currency a rate is for, and about what they are worth in EUR."""
CATEGORIES = ("Flights", "Hotels", "Meals", "Taxis", "Trains")
PEOPLE = ("A. Meyer", "B. Costa", "C. Dahl", "D. Rossi", "E. Brown", "F. Tanaka")
HOLIDAYS = (date(2025, 1, 1), date(2025, 1, 6), date(2025, 2, 19))
START, END = date(2024, 12, 30), date(2025, 3, 31)
MONTHS = ("January", "February", "March")
BRIEF = """\
goal = \"\"\"
expenses.xlsx lists travel expenses of January to March 2025 in several currencies; rates.csv has daily rates: the EUR
paid for Unit units of a currency. Write Converted.xlsx with two sheets.
Sheet Expenses: the columns No, Date, Employee, Category, Currency, Amount, Rate, EUR; one row for each expense, sorted
by No, and nothing else. Rate is the EUR value of one unit of the currency on the date, not rounded; on days without a
rate the last earlier rate applies; for EUR the rate is 1. EUR is a formula: Amount times Rate, rounded to cents.
Sheet Summary: in A1 to E1 the heads Category, January, February, March, Total; in rows 2 to 6 the five categories in
alphabetical order; in row 7 Total. Every figure in B2:E7 is a formula over the sheet Expenses or over the figures of
this sheet, so that a changed amount changes the sums. All in EUR.
\"\"\"
inputs = ["expenses.xlsx", "rates.csv"]
image = "office"
seconds = 1200
approve = "auto"

[[deliverables]]
path = "Converted.xlsx"
check = "xlsx"

[deliverables.expect]
sheets = ["Expenses", "Summary"]
sheet = "Expenses"
columns = ["No", "Date", "Employee", "Category", "Currency", "Amount", "Rate", "EUR"]
rows = {min = 100, max = 300}
formulas = ["column EUR", "Summary!B2:E7"]
"""


def write_rates(chance: random.Random) -> dict[tuple[str, date], float]:
    """Write the rates of business days; return the EUR value of one unit on each of them."""
    known, day = {}, START
    values = {currency: value for currency, (_, value) in UNITS.items()}
    with Path("brief/rates.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("Date", "Currency", "Unit", "Rate"))
        while day <= END:
            for currency, (unit, _) in UNITS.items():
                values[currency] = round(values[currency] * chance.uniform(0.985, 1.015), 4)
                if day.weekday() < 5 and day not in HOLIDAYS:
                    table.writerow((day, currency, unit, f"{values[currency]:.4f}"))
                    known[currency, day] = values[currency] / unit
            day += timedelta(days=1)
    return known


def find_rate(known: dict[tuple[str, date], float], currency: str, day: date) -> float:
    """Return the rate of a day, or the last one before it."""
    while currency != "EUR" and (currency, day) not in known:
        day -= timedelta(days=1)
    return 1.0 if currency == "EUR" else known[currency, day]


def invent(chance: random.Random, known: dict[tuple[str, date], float]) -> list[dict[str, Any]]:
    """Return the expenses of a quarter, in the order of their dates."""
    days = sorted(date(2025, 1, 1) + timedelta(days=chance.randint(0, 89)) for _ in range(150))
    expenses = []
    for number, day in enumerate(days, 1):
        currency = chance.choice(("EUR", *UNITS, "USD"))
        amount = chance.randint(500, 80_000) / 100
        if currency in ("JPY", "SEK"):
            amount = float(chance.randint(500, 60_000))
        rate = find_rate(known, currency, day)
        expenses.append(
            {
                "no": number, "date": day.isoformat(), "employee": chance.choice(PEOPLE), "currency": currency,
                "category": chance.choice(CATEGORIES), "amount": amount, "rate": rate,
            }
        )  # fmt: skip
    return expenses


def write_expenses(chance: random.Random, expenses: list[dict[str, Any]]) -> None:
    """Write the workbook: a band for each month, and a sum below it that means nothing."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Travel"
    sheet.append(("No", "Date", "Employee", "Category", "Currency", "Amount"))
    for month, name in enumerate(MONTHS, 1):
        sheet.append((f"{name} 2025",))
        band = sheet.max_row
        sheet.merge_cells(start_row=band, end_row=band, start_column=1, end_column=6)
        sheet.cell(band, 1).font = Font(bold=True)
        for each in expenses:
            day = date.fromisoformat(each["date"])
            if day.month == month:
                written = day.isoformat() if chance.random() < 0.08 else day
                columns = (each[key] for key in ("employee", "category", "currency", "amount"))
                sheet.append((each["no"], written, *columns))
        sheet.append(("Subtotal", None, None, None, "mixed", f"=SUM(F{band + 1}:F{sheet.max_row})"))
    book.save("brief/expenses.xlsx")


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same quarter
    Path("brief").mkdir()
    Path("hidden").mkdir()
    known = write_rates(chance)
    expenses = invent(chance, known)
    write_expenses(chance, expenses)
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({"expenses": expenses}, indent=1))


if __name__ == "__main__":
    main()
