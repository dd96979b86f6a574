"""Reads invoices at the worker's desk, and names those that it cannot read.

python3 parse.py          writes invoices.json, from the texts in `text/`
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from pathlib import Path

from extract import TEXTS, recognised  # type: ignore[import-not-found]

NUMBER = ("Invoice no:", "Rechnung Nr.", "Facture n°", "Invoice", "Reference:", "Bill number:")
DATE = ("Date:", "Datum", "Date", "Issued", "Dated:", "Bill date:")
TOTAL = ("Total due", "Gesamtbetrag", "Total TTC", "Amount payable", "To be paid", "Please pay")
ORDER = re.compile(r"\bPO-\d{5}\b")
AMOUNT = re.compile(r"(?<![\d.,])(\d{1,3}(?:[., \xa0]\d{3})*)[.,](\d\d)(?!\d)")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
OTHERWISE = ((6, 120), (6, 180), (4, 150))
"""Other settings for a scan whose figures do not add up: tesseract's page layout, and the brightness limit of black."""


class Unreadable(Exception):  # noqa: N818 - what is said of an invoice
    """The reason why an invoice cannot be read."""


def main() -> None:
    """Read every text; print which could not be read."""
    scans = set((TEXTS / "scans").read_text().split())
    found, wrong = [], []
    for path in sorted(TEXTS.glob("*.txt")):
        try:
            found.append(fields(path, f"{path.stem}.pdf" in scans))
        except Unreadable as e:
            wrong.append(f"{path.stem}.pdf: {e}")
    if wrong:
        sys.exit("\n".join([f"{len(found)} invoices were read, {len(wrong)} could not be:", *wrong[:10]]))
    Path("invoices.json").write_text(json.dumps(found))
    print(f"{len(found)} invoices were read")


def fields(path: Path, scanned: bool) -> dict[str, object]:
    """Read one invoice. A scan whose figures do not add up is read again with other settings; the majority counts."""
    if not scanned:
        return {"file": f"{path.stem}.pdf", "scanned": False, **read(path.read_text())}
    seen = looks(path)
    return {"file": f"{path.stem}.pdf", "scanned": True, **json.loads(max(seen, key=seen.count))}


def looks(path: Path) -> list[str]:
    """Return the texts of a scan, one for each setting until one adds up or no setting is left."""
    seen, why = [], "nothing was tried"
    for how in (None, *OTHERWISE):
        try:
            text = path.read_text() if how is None else recognised(Path("invoices", f"{path.stem}.pdf"), *how)
            told = read(text)
        except Unreadable as e:
            why = str(e)
            continue
        if adds_up(told):
            return [json.dumps(told)]
        seen.append(json.dumps(told))
    if not seen:
        raise Unreadable(why)
    return seen


def read(text: str) -> dict[str, object]:
    """Read number, date, order, lines and total from a text."""
    rows = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    orders = set(ORDER.findall(text))
    if len(orders) != 1:
        raise Unreadable(f"it names {len(orders)} orders, {', '.join(sorted(orders))}")
    lines = [line for row in rows if (line := position(row))]
    if not lines:
        raise Unreadable("no line of it has what, how many, price and amount")
    number, day = behind(rows, NUMBER), day_of(behind(rows, DATE))
    return {
        "vendor": rows[0][0], "number": number, "date": day, "order": orders.pop(), "lines": lines,
        "total": total(rows), "percents": [int(each) for each in re.findall(r"\b(\d{1,2}) ?%", text)],
    }  # fmt: skip


def position(row: list[str]) -> dict[str, object] | None:
    """Read a line of a table with columns in any order: the price precedes the amount."""
    amounts = [cents(cell) for cell in row if AMOUNT.fullmatch(cell)]
    counts = [int(cell) for cell in row if re.fullmatch(r"\d{1,4}", cell)]
    words = [cell for cell in row if re.search(r"[A-Za-z]{2}", cell)]
    if (len(amounts), len(counts), len(words), len(row)) != (2, 1, 1, 4):
        return None
    return {"what": words[0], "count": counts[0], "price": amounts[0], "amount": amounts[1]}


def behind(rows: list[list[str]], labels: tuple[str, ...]) -> str:
    """Return the value behind a label, or below one that is above its value."""
    for row, below in zip(rows, [*rows[1:], []]):  # noqa: B905
        for at, cell in enumerate(row):
            if cell not in labels:
                continue
            if at == 0 and len(row) == 2:
                return row[1]
            if len(row) > 2 and len(below) == len(row):
                return below[at]
    raise Unreadable(f"none of {', '.join(labels)} is in it")


def total(rows: list[list[str]]) -> int:
    """Read the invoice's total."""
    for row in rows:
        if row[0] in TOTAL and (found := AMOUNT.search(row[-1])):
            return cents(found[0])
    raise Unreadable(f"there is no total in it, none of {', '.join(TOTAL)}")


def cents(text: str) -> int:
    """Read an amount, in cents."""
    found = AMOUNT.fullmatch(text)
    if found is None:
        raise Unreadable(f"{text!r} is no amount")
    return int(re.sub(r"\D", "", found[1]) + found[2])


def day_of(text: str) -> str:
    """Read a date in any of the known formats."""
    figures = [int(each) for each in re.findall(r"\d+", text)]
    month = next((at for at, name in enumerate(MONTHS, 1) if name in text.lower()), 0)
    try:
        if month:
            return date(figures[1], month, figures[0]).isoformat()
        year, month, day = figures if figures[0] > 31 else reversed(figures)
        return date(year, month, day).isoformat()
    except (ValueError, IndexError):
        raise Unreadable(f"{text!r} is no date") from None


def adds_up(told: dict[str, object]) -> bool:
    """Return whether each line and the total agree with the figures they are computed from."""
    lines: list[dict[str, int]] = told["lines"]  # type: ignore[assignment]
    percents: list[int] = told["percents"]  # type: ignore[assignment]
    net = sum(line["amount"] for line in lines)
    *off, tax = percents or [0]
    for rate in off:
        net -= (net * rate + 50) // 100
    whole = net + (net * tax + 50) // 100
    return whole == told["total"] and all(line["count"] * line["price"] == line["amount"] for line in lines)


if __name__ == "__main__":
    main()
