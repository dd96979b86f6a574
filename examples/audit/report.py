"""Compares invoices with orders and writes the report, at the worker's desk.

python3 report.py          Discrepancy_Report.xlsx, from invoices.json and orders.xlsx
"""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import xlsxwriter  # type: ignore[import-not-found]
from openpyxl import load_workbook  # type: ignore[import-untyped]

REPORT = "Discrepancy_Report.xlsx"
COLUMNS = ("File", "Invoice", "Vendor", "Date", "Order", "Invoiced", "Per ERP", "Difference", "Finding")
MONEY = ("Invoiced", "Per ERP", "Difference")
WIDTHS = (17, 12, 20, 12, 11, 14, 14, 14, 70)
RED = "#FF9999"
Invoice = dict[str, Any]
Orders = dict[str, dict[str, Any]]


def main() -> None:
    """Compare, and write the workbook."""
    invoices, orders = json.loads(Path("invoices.json").read_text()), read_orders()
    earliest = first_of_each(invoices)
    rows = [(each, *judged(each, orders, earliest[each["order"]])) for each in invoices]
    with xlsxwriter.Workbook(REPORT) as book:
        Sheets(book, rows, len(orders), open_orders(invoices, orders)).write()
    wrong = [(each["file"], finding) for each, _, finding in rows if finding]
    print(
        f"{len(rows)} invoices, {len(wrong)} do not agree with the ERP", *(": ".join(each) for each in wrong), sep="\n"
    )


def read_orders() -> Orders:
    """Read the orders that the ERP exported; money is in cents."""
    book = load_workbook("orders.xlsx", read_only=True)
    _, *heads = book["Orders"].iter_rows(values_only=True)
    found: Orders = {row[0]: {"total": round(row[4] * 100), "lines": {}} for row in heads}
    _, *lines = book["Positions"].iter_rows(values_only=True)
    for order, what, count, price, _ in lines:
        found[order]["lines"][what] = (count, round(price * 100))
    return found


def first_of_each(invoices: list[Invoice]) -> dict[str, str]:
    """Return the first file that bills each order; later ones are duplicates."""
    found: dict[str, str] = {}
    for each in sorted(invoices, key=lambda each: (each["date"], each["file"])):
        found.setdefault(each["order"], each["file"])
    return found


def judged(each: Invoice, orders: Orders, first: str) -> tuple[int, str]:
    """Return the payable amount of an invoice in cents, and what is wrong with it."""
    if each["order"] not in orders:
        return 0, f"the ERP has no order {each['order']}"
    if each["file"] != first:
        return 0, f"order {each['order']} is already billed by {first}: a duplicate"
    ordered = orders[each["order"]]
    wrong = [*own_errors(each), *differing(each, ordered["lines"])]
    if each["total"] == ordered["total"]:
        return ordered["total"], ""
    return ordered["total"], "; ".join(wrong) or "the total is not what its lines, discount and VAT come to"


def own_errors(each: Invoice) -> list[str]:
    """List lines whose amount differs from their own figures."""
    return [
        f"{line['what']}: {line['count']} x {money(line['price'])} is not {money(line['amount'])}"
        for line in each["lines"]
        if line["count"] * line["price"] != line["amount"]
    ]


def differing(each: Invoice, ordered: dict[str, tuple[int, int]]) -> list[str]:
    """List lines that differ from the order."""
    wrong = []
    for line in each["lines"]:
        count, price = ordered.get(line["what"], (0, 0))
        if not count:
            wrong.append(f"{line['what']}: not ordered")
        elif line["count"] != count:
            wrong.append(f"{line['what']}: {line['count']} invoiced, {count} ordered")
        elif line["price"] != price:
            wrong.append(f"{line['what']}: {money(line['price'])} each, {money(price)} agreed")
    return wrong


def open_orders(invoices: list[Invoice], orders: Orders) -> int:
    """Count the orders that no invoice bills."""
    return len(set(orders) - {each["order"] for each in invoices})


def money(cents: int) -> str:
    """Write an amount."""
    return f"{cents / 100:,.2f}"


class Sheets:
    """The workbook: every computed value is a formula with its cached result."""

    def __init__(self, book: Any, rows: list[tuple[Invoice, int, str]], orders: int, waiting: int) -> None:
        self.book, self.rows, self.orders, self.waiting = book, rows, orders, waiting
        self.last = len(rows) + 1
        self.bold = book.add_format({"bold": True, "bottom": 1, "indent": 1})
        self.sum = book.add_format({"bold": True, "top": 1, "num_format": "#,##0.00"})
        self.word = book.add_format({"bold": True})
        self.line = book.add_format({"bottom": 1})
        self.money = book.add_format({"num_format": "#,##0.00"})
        self.right = book.add_format({"bold": True, "bottom": 1, "align": "right"})
        kinds: dict[str, dict[str, Any]] = {
            "text": {"align": "left", "indent": 1},
            "money": {"num_format": "#,##0.00"},
            "day": {"num_format": "yyyy-mm-dd", "align": "left", "indent": 1},
        }
        self.plain = {name: book.add_format(told) for name, told in kinds.items()}
        self.red = {name: book.add_format({**told, "bg_color": RED}) for name, told in kinds.items()}

    def write(self) -> None:
        """Write both sheets, the summary first."""
        summary, invoices = self.book.add_worksheet("Summary"), self.book.add_worksheet("Invoices")
        self.invoices(invoices)
        self.summary(summary)

    def invoices(self, sheet: Any) -> None:
        """Write one row for each invoice, and the sums."""
        for column, title in enumerate(COLUMNS):
            sheet.write_string(0, column, title, self.right if title in MONEY else self.bold)
        for at, row in enumerate(self.rows, 1):
            self.row(sheet, at, *row)
        sheet.write(self.last, 0, "Total", self.sum)
        for column, letter, value in ((5, "F", self.invoiced), (6, "G", self.payable), (7, "H", self.difference)):
            sheet.write_formula(self.last, column, f"=SUM({letter}2:{letter}{self.last})", self.sum, value / 100)
        for column, width in enumerate(WIDTHS):
            sheet.set_column(column, column, width)
        sheet.freeze_panes(1, 0)
        sheet.autofilter(0, 0, self.last - 1, len(COLUMNS) - 1)
        paged(sheet)
        sheet.repeat_rows(0)

    def row(self, sheet: Any, at: int, each: Invoice, payable: int, finding: str) -> None:
        """Write one invoice."""
        style = self.red if finding else self.plain
        for column, name in enumerate(("file", "number", "vendor")):
            sheet.write_string(at, column, each[name], style["text"])
        sheet.write_datetime(at, 3, date.fromisoformat(each["date"]), style["day"])
        sheet.write_string(at, 4, each["order"], style["text"])
        sheet.write_number(at, 5, each["total"] / 100, style["money"])
        sheet.write_number(at, 6, payable / 100, style["money"])
        given = round((each["total"] - payable) / 100, 2)
        sheet.write_formula(at, 7, f"=F{at + 1}-G{at + 1}", style["money"], given)
        sheet.write_string(at, 8, finding or "OK", style["text"])

    @property
    def invoiced(self) -> int:
        """Return the sum of the invoiced totals."""
        return sum(each["total"] for each, _, _ in self.rows)

    @property
    def payable(self) -> int:
        """Return the sum of the payable amounts."""
        return sum(payable for _, payable, _ in self.rows)

    @property
    def difference(self) -> int:
        """Return the amount that should not be paid."""
        return self.invoiced - self.payable

    def summary(self, sheet: Any) -> None:
        """Write counts and sums, and a line for a signature."""
        wrong = sum(1 for _, _, finding in self.rows if finding)
        scans = sum(1 for each, _, _ in self.rows if each["scanned"])
        finding, difference = f"Invoices!I2:I{self.last}", f"Invoices!H{self.last + 1}"
        told: list[tuple[str, str | int, float]] = [
            ("Invoices", f"=COUNTA(Invoices!A2:A{self.last})", len(self.rows)),
            ("of them scanned", scans, scans),
            ("Orders in the ERP", self.orders, self.orders),
            ("Orders not billed yet", self.waiting, self.waiting),
            ("Invoices that agree", f'=COUNTIF({finding},"OK")', len(self.rows) - wrong),
            ("Discrepancies", "=B3-B7", wrong),
            ("Invoiced, EUR", f"=Invoices!F{self.last + 1}", self.invoiced / 100),
            ("Per ERP, EUR", f"=Invoices!G{self.last + 1}", self.payable / 100),
            ("Difference, EUR", f"={difference}", self.difference / 100),
        ]
        sheet.write(0, 0, "Audit of invoices against the ERP", self.word)
        for at, (label, shown, value) in enumerate(told, 2):
            sheet.write(at, 0, label)
            style = self.money if "EUR" in label else None
            if isinstance(shown, str):
                sheet.write_formula(at, 1, shown, style, value)
            else:
                sheet.write_number(at, 1, shown, style)
        self.sign(sheet, self.listed(sheet, len(told) + 3))
        sheet.set_column(0, 0, 28)
        sheet.set_column(1, 1, 24)
        sheet.set_column(2, 2, 90)
        paged(sheet)

    def listed(self, sheet: Any, at: int) -> int:
        """List the discrepancies below the sums; return the next row."""
        for place, (each, payable, finding) in enumerate(self.rows, 2):
            if finding:
                sheet.write_string(at, 0, each["file"], self.red["text"])
                given = round((each["total"] - payable) / 100, 2)
                sheet.write_formula(at, 1, f"=Invoices!H{place}", self.red["money"], given)
                sheet.write_string(at, 2, finding, self.red["text"])
                at += 1
        return at

    def sign(self, sheet: Any, at: int) -> None:
        """Write lines for signatures."""
        for label in ("Audited by", "Approved by", "Date"):
            at += 2
            sheet.write_string(at, 0, label)
            sheet.write_blank(at, 1, None, self.line)


def paged(sheet: Any) -> None:
    """Make a sheet print on A4, as wide as the page."""
    sheet.set_paper(9)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.set_footer("&L&F&RPage &P of &N")


if __name__ == "__main__":
    main()
