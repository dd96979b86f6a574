"""Writes the five invoices: one-page PDFs with uncompressed text. `python3 invoices.py` generates them again."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import pdf as written

INVOICES = (
    ("INV-2031", "PO-7001", "Alder Timber", (("Oak boards", 25, 41.80), ("Delivery", 1, 95.00))),
    ("INV-2032", "PO-7002", "Birch & Sons (North)", (("Workbench", 2, 389.50),)),
    ("INV-2033", "PO-7003", "Cedar Lighting", (("Lamp", 12, 64.25), ("Cable, 50 m", 3, 38.00))),
    ("INV-2034", "PO-7004", "Dogwood Office", (("Chair", 6, 180.00),)),
    ("INV-2035", "PO-7005", "Elm Catering", (("Lunch", 40, 11.90),)),
)
Positions = tuple[tuple[str, int, float], ...]


def lines(number: str, order: str, vendor: str, positions: Positions) -> list[str]:
    """Return the lines of an invoice."""
    body = [f"{count} x {what} at {price:,.2f} EUR" for what, count, price in positions]
    total = sum(count * price for _, count, price in positions)
    return [f"Invoice: {number}", f"Order: {order}", f"Vendor: {vendor}", *body, f"Total: {total:,.2f} EUR"]


def pdf(texts: list[str]) -> bytes:
    """Return a PDF of one A4 page with these lines."""
    return written.column(texts, size=12, left=72)


def main() -> None:
    """Write them beside this file."""
    folder = Path(__file__).with_name("invoices")
    folder.mkdir(exist_ok=True)
    for number, order, vendor, positions in INVOICES:
        (folder / f"{number}.pdf").write_bytes(pdf(lines(number, order, vendor, positions)))


if __name__ == "__main__":
    main()
