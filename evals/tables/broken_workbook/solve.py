"""The reference solution's program at its desk: write every formula as TASK.md states it, and fix the inputs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import openpyxl  # type: ignore[import-untyped]
from openpyxl.utils import get_column_letter as letter  # type: ignore[import-untyped]

FIRST, LAST_MONTH, YEAR = 7, 13, 14


def main() -> None:
    """Write Repaired.xlsx, calculated by LibreOffice."""
    book = openpyxl.load_workbook("Budget.xlsx")
    mend_inputs(book["Inputs"])
    for column in range(2, LAST_MONTH + 1):
        mend_month(book, letter(column))
    for sheet in (book[name] for name in ("Units", "Sales", "Costs", "Summary")):
        for row in range(2, sheet.max_row + 1):
            sheet.cell(row, YEAR, f"=SUM(B{row}:M{row})")
    Path("plain").mkdir()
    book.save("plain/Repaired.xlsx")
    argv = ["soffice", "--headless", "--convert-to", "xlsx", "--outdir", ".", "plain/Repaired.xlsx"]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def mend_inputs(sheet: Any) -> None:
    """Type the right inputs as numbers."""
    text = " ".join(Path("TASK.md").read_text().split())
    stated = text.partition("The right inputs are: ")[2]
    for row, name in ((2, "tax rate"), (3, "overhead"), (4, "discount")):
        sheet.cell(row, 2, float(find(rf"{name} (\d+(?:\.\d+)?)", stated)[1]))
    for row in range(FIRST, sheet.max_row + 1):
        match = find(rf"{sheet.cell(row, 1).value} (\d+) and (\d+)", stated)
        sheet.cell(row, 2, int(match[1]))
        sheet.cell(row, 3, int(match[2]))


def mend_month(book: Any, month: str) -> None:
    """Write the formulas of a month."""
    sales, costs, summary = (book[name] for name in ("Sales", "Costs", "Summary"))
    for row in range(2, 7):
        sales[f"{month}{row}"] = f"=Units!{month}{row}*Inputs!$B${row + 5}*(1-Inputs!$B$4)"
        costs[f"{month}{row}"] = f"=Units!{month}{row}*Inputs!$C${row + 5}"
    sales[f"{month}7"] = f"=SUM({month}2:{month}6)"
    costs[f"{month}7"] = "=Inputs!$B$3"
    costs[f"{month}8"] = f"=SUM({month}2:{month}7)"
    formulas = (
        f"=Sales!{month}7", f"=Costs!{month}8", f"={month}2-{month}3", f"=MAX(0,{month}4)*Inputs!$B$2",
        f"={month}4-{month}5",
    )  # fmt: skip
    for row, formula in enumerate(formulas, 2):
        summary[f"{month}{row}"] = formula


def find(pattern: str, text: str) -> re.Match[str]:
    """Return the match; fail if there is none."""
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"TASK.md does not say {pattern}")
    return match


if __name__ == "__main__":
    main()
