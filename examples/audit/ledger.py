"""The ERP's export: orders and their positions as a workbook, by the standard library only."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Sequence
from io import BytesIO
from xml.sax.saxutils import escape

from examples.audit.invoices import Invoice

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
ORDERS = ("Order", "Vendor", "Discount %", "VAT %", "Total EUR")
POSITIONS = ("Order", "Item", "Quantity", "Unit price", "Amount")
Row = Sequence[str | float]


def write_workbook(orders: Iterable[Invoice]) -> bytes:
    """Return all orders as a workbook."""
    totals: list[Row] = [ORDERS]
    lines: list[Row] = [POSITIONS]
    for each in orders:
        totals.append((each.order, each.vendor.name, each.vendor.discount, each.vendor.vat, each.total / 100))
        lines += [(each.order, line.what, line.count, line.price / 100, line.amount / 100) for line in each.lines]
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {
            **PARTS,
            "xl/worksheets/sheet1.xml": format_sheet(totals),
            "xl/worksheets/sheet2.xml": format_sheet(lines),
        }.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + text)
    return file.getvalue()


def format_sheet(rows: Iterable[Row]) -> str:
    """Return the XML of a sheet."""
    shown = ""
    for number, row in enumerate(rows, 1):
        cells = [format_cell(f"{letter}{number}", value) for letter, value in zip("ABCDE", row, strict=True)]
        shown += f'<row r="{number}">{"".join(cells)}</row>'
    return f'<worksheet xmlns="{MAIN}"><sheetData>{shown}</sheetData></worksheet>'


def format_cell(place: str, value: str | float) -> str:
    """Return the XML of a cell with a text or a number."""
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


SHEETS = ("Orders", "Positions")
PARTS = {
    "[Content_Types].xml": f"""<Types xmlns="{PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/>
<Override PartName="/xl/worksheets/sheet2.xml" ContentType="{TYPE}.worksheet+xml"/>
</Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>
</Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>
<sheet name="{SHEETS[0]}" sheetId="1" r:id="rId1"/><sheet name="{SHEETS[1]}" sheetId="2" r:id="rId2"/>
</sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type="{OFFICE}/worksheet" Target="worksheets/sheet2.xml"/>
</Relationships>""",
}
