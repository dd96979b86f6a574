"""Runs at the worker's desk: sums orders by region, then writes the workbook with a picture of the dashboard.

python3 transform.py sums ORDERS
python3 transform.py report
"""

from __future__ import annotations

import sys

import pandas as pd  # type: ignore[import-untyped]

SUMS = "sums.csv"


def write_sums(orders: str) -> None:
    """Write the sums of orders by region."""
    table = pd.read_csv(orders)
    table["Total"] = (table["Quantity"] * table["Price"]).round(2)
    sums = table.groupby("Region", as_index=False).agg(Orders=("Order", "count"), Total=("Total", "sum"))
    sums.round(2).to_csv(SUMS, index=False, float_format="%.2f")


def write_report() -> None:
    """Write the sums as a workbook."""
    sums = pd.read_csv(SUMS)
    with pd.ExcelWriter("Sums.xlsx", engine="xlsxwriter") as book:
        sums.to_excel(book, sheet_name="Sums", index=False)
        sheet, last = book.sheets["Sums"], len(sums) + 1
        money = book.book.add_format({"num_format": "#,##0.00"})
        sheet.set_column("A:B", 14)
        sheet.set_column("C:C", 16, money)
        sheet.write(last, 0, "All")
        sheet.write_formula(last, 2, f"=SUM(C2:C{last})", money, round(float(sums["Total"].sum()), 2))
        book.book.add_worksheet("Board").insert_image("A1", "dashboard.png", {"x_scale": 0.75, "y_scale": 0.75})


if __name__ == "__main__":
    if sys.argv[1] == "sums":
        write_sums(sys.argv[2])
    else:
        write_report()
