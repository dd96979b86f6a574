"""Writes the five invoices: real PDFs of one page, their text not compressed. `python3 invoices.py` makes them anew."""

from __future__ import annotations

from pathlib import Path

INVOICES = (
    ("INV-2031", "PO-7001", "Alder Timber", (("Oak boards", 25, 41.80), ("Delivery", 1, 95.00))),
    ("INV-2032", "PO-7002", "Birch & Sons (North)", (("Workbench", 2, 389.50),)),
    ("INV-2033", "PO-7003", "Cedar Lighting", (("Lamp", 12, 64.25), ("Cable, 50 m", 3, 38.00))),
    ("INV-2034", "PO-7004", "Dogwood Office", (("Chair", 6, 180.00),)),
    ("INV-2035", "PO-7005", "Elm Catering", (("Lunch", 40, 11.90),)),
)
Positions = tuple[tuple[str, int, float], ...]


def lines(number: str, order: str, vendor: str, positions: Positions) -> list[str]:
    """Write what an invoice says."""
    body = [f"{count} x {what} at {price:,.2f} EUR" for what, count, price in positions]
    total = sum(count * price for _, count, price in positions)
    return [f"Invoice: {number}", f"Order: {order}", f"Vendor: {vendor}", *body, f"Total: {total:,.2f} EUR"]


def pdf(texts: list[str]) -> bytes:
    """Lay lines out on one page of A4."""
    shown = b"".join(b"(%s) Tj T*\n" % escaped(text) for text in texts)
    page = b"BT /F1 12 Tf 16 TL 72 770 Td\n" + shown + b"ET\n"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
        b" /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%sendstream" % (len(page), page),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    )
    file, places = b"%PDF-1.4\n", []
    for number, told in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, told)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return file + end + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(file))


def escaped(text: str) -> bytes:
    """Write a text as it stands between the brackets of a PDF."""
    data = text.encode("cp1252")
    return data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")


def main() -> None:
    """Write them beside this file."""
    folder = Path(__file__).with_name("invoices")
    folder.mkdir(exist_ok=True)
    for number, order, vendor, positions in INVOICES:
        (folder / f"{number}.pdf").write_bytes(pdf(lines(number, order, vendor, positions)))


if __name__ == "__main__":
    main()
