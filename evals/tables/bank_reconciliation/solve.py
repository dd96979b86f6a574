"""The reference solution's program at its desk: read four files into one form, compare, and write the workbook."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import openpyxl  # type: ignore[import-untyped]
import xlsxwriter  # type: ignore[import-not-found]

Entries = dict[tuple[str, str], list[int]]


def main() -> None:
    """Write Reconciliation.xlsx."""
    bank, ledger = read_statements(), read_ledger()
    rows = [(key, sum(bank[key]), sum(ledger[key])) for key in sorted({*bank, *ledger}) if bank[key] != ledger[key]]
    book = xlsxwriter.Workbook("Reconciliation.xlsx")
    money = book.add_format({"num_format": "#,##0.00"})
    sheet = book.add_worksheet("Differences")
    sheet.write_row(0, 0, ("Account", "Reference", "Kind", "Bank", "Ledger", "Difference"))
    for at, (key, paid, booked) in enumerate(rows, 1):
        sheet.write_row(at, 0, (*key, kind_of(bank[key], ledger[key])))
        sheet.write_row(at, 3, (paid / 100, booked / 100), money)
        sheet.write_formula(at, 5, f"=D{at + 1}-E{at + 1}", money, (paid - booked) / 100)
    last = len(rows) + 1
    sheet.write(last, 0, "Total")
    total = sum(paid - booked for _, paid, booked in rows)
    sheet.write_formula(last, 5, f"=SUM(F2:F{last})", money, total / 100)
    sheet = book.add_worksheet("Balances")
    sheet.write_row(0, 0, ("Account", "Bank", "Ledger", "Difference"))
    for at, account in enumerate(sorted({key[0] for key in bank}), 1):
        paid, booked = (sum(sum(cents) for key, cents in of.items() if key[0] == account) for of in (bank, ledger))
        sheet.write(at, 0, account)
        sheet.write_row(at, 1, (paid / 100, booked / 100), money)
        sheet.write_formula(at, 3, f"=B{at + 1}-C{at + 1}", money, (paid - booked) / 100)
    book.close()


def kind_of(paid: list[int], booked: list[int]) -> str:
    """Return the kind of a difference."""
    if not booked:
        return "missing in ledger"
    if not paid:
        return "missing in bank"
    return "duplicate in ledger" if len(booked) > len(paid) else "amount"


def reference(text: str) -> str:
    """Return the reference in a text, as the ledger writes it."""
    match = re.search(r"RE[ -]?(\d{5})", text)
    if match is None:
        raise ValueError(f"{text!r} has no reference")
    return f"RE-{match[1]}"


def cents(text: str) -> int:
    """Read an amount with two decimals, whatever its separators."""
    return int(re.sub(r"[^\d-]", "", text))


def read_statements() -> Entries:
    """Read the three statements."""
    found: Entries = defaultdict(list)
    with Path("northbank.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found["Northbank", reference(row["Reference"])].append(cents(row["Amount"]))
    with Path("sparbank.csv").open(encoding="cp1252", newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            found["Sparbank", reference(row["Verwendungszweck"])].append(cents(row["Betrag"]))
    for line in Path("atlantic.csv").read_text(encoding="utf-16").splitlines()[5:]:
        _, text, debit, credit = line.split("\t")
        if text != "Total":
            found["Atlantic", reference(text)].append(-cents(debit) if debit else cents(credit))
    return found


def read_ledger() -> Entries:
    """Read the ledger."""
    found: Entries = defaultdict(list)
    for _, account, number, _, amount in openpyxl.load_workbook("ledger.xlsx")["Ledger"].iter_rows(2, values_only=True):
        found[account, reference(number)].append(round(amount * 100))
    return found


if __name__ == "__main__":
    main()
