"""Grade the repaired workbook: calculate it as delivered, and again with other inputs, and compare every result."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
from openpyxl.utils import get_column_letter as letter  # type: ignore[import-untyped]

DELIVERED = "delivered/Repaired.xlsx"
SHEETS = ("Inputs", "Units", "Sales", "Costs", "Summary")


def main() -> None:
    """Print the result."""
    truth = json.loads(Path("hidden/truth.json").read_text())
    try:
        faults = find_faults(truth)
    except Exception as e:  # noqa: BLE001 - whatever a file does to its parser is a fault of the file
        faults = [f"Repaired.xlsx cannot be read: {e!r}."]
    print(json.dumps({"passed": not faults, "faults": faults[:20]}))


def find_faults(truth: dict[str, Any]) -> list[str]:
    """Compare inputs and results, and the results after a change of every input."""
    book = openpyxl.load_workbook(DELIVERED)
    if missing := [name for name in SHEETS if name not in book.sheetnames]:
        return [f"There is no sheet {name}." for name in missing]
    faults = [
        f"{place} is {book[place.split('!')[0]][place.split('!')[1]].value!r}; {wanted} is expected."
        for place, wanted in inputs_of(truth).items()
        if book[place.split("!")[0]][place.split("!")[1]].value != wanted
    ]
    for name, part in (
        ("Sales", range(2, 8)),
        ("Costs", range(2, 9)),
        ("Summary", range(2, 7)),
        ("Units", range(2, 7)),
    ):
        columns = range(2, 15) if name != "Units" else range(14, 15)
        for place in (f"{letter(column)}{row}" for row in part for column in columns):
            if not str(book[name][place].value).startswith("="):
                faults.append(f"{name}!{place} is no formula: {book[name][place].value!r}.")
    other = change(truth)
    for title, facts in (("as delivered", truth), ("with other inputs", other)):
        for place, value in inputs_of(facts).items():
            book[place.split("!")[0]][place.split("!")[1]] = value
        faults += [f"{fault} ({title})" for fault in compare(facts, calculate(book))]
    return faults


def inputs_of(facts: dict[str, Any]) -> dict[str, float]:
    """Return every input by its cell."""
    cells = {"Inputs!B2": facts["rate"], "Inputs!B3": facts["overhead"], "Inputs!B4": facts["discount"]}
    for at in range(5):
        cells |= {f"Inputs!B{7 + at}": facts["prices"][at], f"Inputs!C{7 + at}": facts["costs"][at]}
        cells |= {f"Units!{letter(month + 2)}{at + 2}": facts["units"][at][month] for month in range(12)}
    return cells


def change(truth: dict[str, Any]) -> dict[str, Any]:
    """Return other inputs, with a loss in a month that had none before."""
    other = copy.deepcopy(truth)
    other |= {"rate": 0.33, "overhead": truth["overhead"] + 1300, "discount": 0.11}
    other["prices"] = [price + 7 * at + 3 for at, price in enumerate(truth["prices"])]
    other["costs"] = [cost + 5 * at + 2 for at, cost in enumerate(truth["costs"])]
    other["units"] = [[count + at + month for month, count in enumerate(row)] for at, row in enumerate(truth["units"])]
    for row in other["units"]:
        row[6] = 0
    return other


def calculate(book: Any) -> Any:
    """Have LibreOffice calculate a workbook whose saved values are dropped."""
    book.save("plain.xlsx")
    argv = ["soffice", "--headless", "--convert-to", "xlsx", "--outdir", "calculated", "plain.xlsx"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)
    return openpyxl.load_workbook("calculated/plain.xlsx", data_only=True)


def compare(facts: dict[str, Any], book: Any) -> list[str]:
    """Compare every result with a calculation of our own."""
    faults = []
    for name, rows in results_of(facts).items():
        for row, values in enumerate(rows, 2):
            for column, wanted in enumerate([*values, sum(values)], 2):
                value = book[name].cell(row, column).value
                if not isinstance(value, int | float) or abs(value - wanted) > 0.01:
                    faults.append(f"{name}!{letter(column)}{row} is {value}; {wanted:.2f} is expected")
    return faults


def results_of(facts: dict[str, Any]) -> dict[str, list[list[float]]]:
    """Calculate the budget."""
    units, factor = facts["units"], 1 - facts["discount"]
    sales = [[count * price * factor for count in row] for row, price in zip(units, facts["prices"], strict=True)]
    costs = [[count * cost for count in row] for row, cost in zip(units, facts["costs"], strict=True)]
    costs.append([facts["overhead"]] * 12)
    for table in (sales, costs):
        table.append([sum(column) for column in zip(*table, strict=True)])
    profit = [sold - spent for sold, spent in zip(sales[-1], costs[-1], strict=True)]
    tax = [max(0, each) * facts["rate"] for each in profit]
    after = [earned - paid for earned, paid in zip(profit, tax, strict=True)]
    return {"Units": units, "Sales": sales, "Costs": costs, "Summary": [sales[-1], costs[-1], profit, tax, after]}


if __name__ == "__main__":
    main()
