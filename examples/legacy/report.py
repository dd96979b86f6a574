"""Writes the worker's workbook at its desk: the entered values, the values read back, and a picture of the window."""

from __future__ import annotations

import json
from pathlib import Path

import xlsxwriter  # type: ignore[import-not-found]

COLUMNS = ("Day", "Customer", "Entered", "Read", "Difference")


def main() -> None:
    """Write a row for each record, and the picture on a sheet of its own."""
    rows = json.loads(Path("rows.json").read_text())
    with xlsxwriter.Workbook("Read_Back.xlsx") as book:
        sheet, head = book.add_worksheet("Records"), book.add_format({"bold": True})
        money = book.add_format({"num_format": "#,##0.00"})
        sheet.set_column(0, len(COLUMNS) - 1, 18)
        sheet.write_row(0, 0, COLUMNS, head)
        for number, (day, customer, entered, read) in enumerate(rows, 2):
            sheet.write_row(number - 1, 0, (day, customer))
            sheet.write_row(number - 1, 2, (entered, read), money)
            sheet.write_formula(f"E{number}", f"=C{number}-D{number}", money, round(entered - read, 2))
        total = round(sum(entered - read for _, _, entered, read in rows), 2)
        sheet.write(len(rows) + 1, 0, "Total", head)
        sheet.write_formula(len(rows) + 1, 4, f"=SUM(E2:E{len(rows) + 1})", money, total)
        book.add_worksheet("Window").insert_image("A1", "window.png", {"x_scale": 0.75, "y_scale": 0.75})


if __name__ == "__main__":
    main()
