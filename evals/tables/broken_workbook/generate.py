"""Write a budget workbook, break it in eight places, and describe how it should calculate."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
from openpyxl.utils import get_column_letter as letter  # type: ignore[import-untyped]

PRODUCTS = ("Chairs", "Desks", "Lamps", "Shelves", "Screens")
MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
FIRST, LAST = 7, 11
"""Rows of the products on the sheet Inputs."""
TASK = """# How Budget.xlsx should calculate

The workbook has five sheets. Months stand in the columns B to M, and column N is the sum of the twelve months.
Somebody worked on it in a hurry; some cells are broken. Find and repair all of them, and save the result as
`Repaired.xlsx`. Keep the layout: sheets, rows, columns and labels stay where they are, and so do inputs that are right.

- **Inputs**: numbers that people type. B2 is the tax rate as a fraction ({percent} % is {rate}). B3 is the overhead a
  month in EUR. B4 is the discount on all prices as a fraction. From row 7 to 11: product, price in EUR (column B),
  cost of a piece in EUR (column C). Every number must be a number, not text. The right inputs are: {inputs}.
- **Units**: pieces sold by product (rows 2 to 6) and month; typed numbers, all of them right. Column N is a sum.
- **Sales**: rows 2 to 6 are units times price times (1 - discount). Row 7 is the sum of the five products.
- **Costs**: rows 2 to 6 are units times cost of a piece. Row 7 is the overhead. Row 8 is the sum of rows 2 to 7.
- **Summary**: row 2 is the total of Sales, row 3 the total of Costs, row 4 profit (row 2 minus row 3), row 5 tax: the
  tax rate times the profit of the month, and 0 in a month with a loss. Row 6 is profit minus tax. Column N is the sum
  of the twelve months in every row.

Every cell of Sales, Costs and Summary from B to N, and column N of Units, is a formula: when an input or a number of
units changes, all results must follow.
"""
BRIEF = """\
goal = "Repair all broken cells of Budget.xlsx as TASK.md describes; save the workbook as Repaired.xlsx."
inputs = ["TASK.md", "Budget.xlsx"]
image = "office"
seconds = 1200
approve = "auto"

[[deliverables]]
path = "Repaired.xlsx"
check = "xlsx"

[deliverables.expect]
sheets = ["Inputs", "Units", "Sales", "Costs", "Summary"]
formulas = ["Sales!B2:N7", "Costs!B2:N8", "Summary!B2:N6"]
"""


def invent(chance: random.Random) -> dict[str, Any]:
    """Return the inputs of a year whose first month makes a loss."""
    units = [[chance.randint(20, 90) for _ in MONTHS] for _ in PRODUCTS]
    for row in units:
        row[0] = chance.randint(1, 4)
    prices = [chance.randint(80, 400) for _ in PRODUCTS]
    return {
        "rate": chance.choice((0.19, 0.21, 0.24)), "overhead": chance.randint(100, 160) * 50,
        "discount": chance.choice((0.03, 0.05, 0.08)), "prices": prices,
        "costs": [round(price * chance.uniform(0.4, 0.6)) for price in prices], "units": units,
    }  # fmt: skip


def build(facts: dict[str, Any]) -> Any:
    """Write the workbook as it should be."""
    book = openpyxl.Workbook()
    inputs = book.active
    inputs.title = "Inputs"
    rows = [("Inputs",), ("Tax rate", facts["rate"]), ("Overhead a month", facts["overhead"])]
    rows += [("Discount", facts["discount"]), (), ("Product", "Price", "Cost")]
    for cells in [*rows, *zip(PRODUCTS, facts["prices"], facts["costs"], strict=True)]:
        inputs.append(cells)
    units, sales, costs, summary = (book.create_sheet(name) for name in ("Units", "Sales", "Costs", "Summary"))
    for sheet in (units, sales, costs, summary):
        sheet.append((sheet.title, *MONTHS, "Year"))
    for at, product in enumerate(PRODUCTS):
        row, source = at + 2, FIRST + at
        units.append((product, *facts["units"][at]))
        columns = [letter(column) for column in range(2, 14)]
        sales.append((product, *(f"=Units!{c}{row}*Inputs!$B${source}*(1-Inputs!$B$4)" for c in columns)))
        costs.append((product, *(f"=Units!{c}{row}*Inputs!$C${source}" for c in columns)))
    sales.append(("Total", *(f"=SUM({c}2:{c}6)" for c in columns)))
    costs.append(("Overhead", *("=Inputs!$B$3" for _ in columns)))
    costs.append(("Total", *(f"=SUM({c}2:{c}7)" for c in columns)))
    summary.append(("Sales", *(f"=Sales!{c}7" for c in columns)))
    summary.append(("Costs", *(f"=Costs!{c}8" for c in columns)))
    summary.append(("Profit", *(f"={c}2-{c}3" for c in columns)))
    summary.append(("Tax", *(f"=MAX(0,{c}4)*Inputs!$B$2" for c in columns)))
    summary.append(("After tax", *(f"={c}4-{c}5" for c in columns)))
    for sheet in (units, sales, costs, summary):
        for row in range(2, sheet.max_row + 1):
            sheet.cell(row, 14, f"=SUM(B{row}:M{row})")
    return book


def damage(chance: random.Random, book: Any, facts: dict[str, Any]) -> list[str]:
    """Break eight cells; return where."""
    sales, costs, summary, inputs = (book[name] for name in ("Sales", "Costs", "Summary", "Inputs"))
    months = chance.sample(range(3, 14), 5)
    first, second, third, fourth, fifth = (letter(month) for month in months)
    product, other = chance.sample(range(5), 2)
    typed = facts["units"][product][months[0] - 2] * facts["prices"][product] * (1 - facts["discount"])
    changes = {
        f"Sales!{first}{product + 2}": round(typed, 2),
        f"Sales!{second}7": f"=SUM({second}2:{second}5)",
        f"Sales!{third}{other + 2}": f"=Units!{third}{other + 2}*Inputs!$B${FIRST + (other + 1) % 5}*(1-Inputs!$B$4)",
        f"Costs!{fourth}{product + 2}": f"=Units!{fourth}{product + 2}*Inputs!#REF!",
        f"Summary!{fifth}3": f"=Costs!{fifth}7",
        "Summary!B5": "=B4*Inputs!$B$2",
        f"Inputs!C{FIRST + other}": f"{facts['costs'][other]} ",
        "Inputs!B2": round(facts["rate"] * 100),
    }
    sheets = {"Sales": sales, "Costs": costs, "Summary": summary, "Inputs": inputs}
    for place, value in changes.items():
        name, cell = place.split("!")
        sheets[name][cell] = value
    return list(changes)


def main() -> None:
    """Write brief and truth."""
    chance = random.Random(int(sys.argv[1]))  # noqa: S311 - the same seed gives the same workbook
    Path("brief").mkdir()
    Path("hidden").mkdir()
    facts = invent(chance)
    book = build(facts)
    places = damage(chance, book, facts)
    book.save("brief/Budget.xlsx")
    products = zip(PRODUCTS, facts["prices"], facts["costs"], strict=True)
    listed = "; ".join(f"{name} {price} and {cost}" for name, price, cost in products)
    rates = f"tax rate {facts['rate']}, overhead {facts['overhead']}, discount {facts['discount']}"
    inputs = f"{rates}; price and cost of {listed}"
    text = TASK.format(percent=round(facts["rate"] * 100), rate=facts["rate"], inputs=inputs)
    Path("brief/TASK.md").write_text(text)
    Path("brief/brief.toml").write_text(BRIEF)
    Path("hidden/truth.json").write_text(json.dumps({**facts, "damaged": places}, indent=1))


if __name__ == "__main__":
    main()
