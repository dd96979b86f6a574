"""Builds the register at a desk without egress: register.xlsx from results.jsonl and quarantine.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xlsxwriter  # type: ignore[import-not-found]

COLUMNS = ("Contract", "Supplier", "Customer", "Term", "Notice", "Cap", "Law", "Renewal", "Evidence")
WIDTHS = (16, 24, 24, 8, 8, 12, 22, 9, 60)


def main() -> None:
    """Write the workbook. Values of results are text and numbers, never formulas."""
    with xlsxwriter.Workbook("register.xlsx", {"strings_to_formulas": False, "strings_to_urls": False}) as book:
        bold, money = book.add_format({"bold": True}), book.add_format({"num_format": "#,##0"})
        sheet = book.add_worksheet("Register")
        for at, (name, width) in enumerate(zip(COLUMNS, WIDTHS, strict=True)):
            sheet.set_column(at, at, width)
            sheet.write_string(0, at, name, bold)
        for row, values in enumerate(rows(), 1):
            for at, value in enumerate(values):
                if isinstance(value, int):
                    sheet.write_number(row, at, value, money)
                else:
                    sheet.write_string(row, at, str(value)[:2000])
        sheet.freeze_panes(1, 1)
        unread(book, bold)


def rows() -> Iterator[tuple[object, ...]]:
    """Yield a row for every contract that was read."""
    for line in lines("results.jsonl"):
        [file] = line["files"].values()
        found = {each["clause"]: each for each in json.loads(file["text"])["clauses"]}
        supplier, customer = found["parties"]["value"]
        pages = ", ".join(f"{name} p. {found[name]['page']}" for name in sorted(found))
        values = (found[name]["value"] for name in ("term", "notice", "cap", "law", "renewal"))
        yield (line["item"], supplier, customer, *values, pages)


def unread(book: Any, bold: Any) -> None:
    """List the contracts in quarantine, with the reasons."""
    sheet = book.add_worksheet("Unread")
    sheet.set_column(0, 1, 16)
    sheet.set_column(2, 2, 100)
    for at, name in enumerate(("Contract", "Cause", "Why")):
        sheet.write_string(0, at, name, bold)
    for row, line in enumerate(lines("quarantine.jsonl"), 1):
        for at, name in enumerate(("item", "cause", "why")):
            sheet.write_string(row, at, str(line[name]))


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of JSON lines."""
    with Path(name).open() as file:
        yield from map(json.loads, file)


if __name__ == "__main__":
    main()
