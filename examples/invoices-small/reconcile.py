"""Runs at the worker's desk: reads invoices, writes a workbook. Standard library only."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from xml.sax.saxutils import escape

INVOICES = Path("invoices.json")
REPORT = "Discrepancy_Report.xlsx"
COLUMNS = ("Invoice", "Order", "Vendor", "Invoiced", "Ordered", "Difference")
PLAIN, HEAD, RED, MONEY, RED_MONEY = range(5)
"""Indexes of styles in STYLES."""


def read() -> None:
    """Read every invoice's fields from the text of its PDF."""
    found = [fields(path.read_bytes()) for path in sorted(Path("invoices").glob("*.pdf"))]
    INVOICES.write_text(json.dumps(found))


def fields(data: bytes) -> dict[str, object]:
    """Return the value behind each label."""
    told = dict(line.split(": ", 1) for line in text_lines(data) if ": " in line)
    amount = float(told["Total"].removesuffix(" EUR").replace(",", ""))
    return {"Invoice": told["Invoice"], "Order": told["Order"], "Vendor": told["Vendor"], "Invoiced": amount}


def text_lines(data: bytes) -> list[str]:
    """Return the texts a PDF shows with `Tj`, in order; its pages are not compressed."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL)
    shown = re.findall(rb"\(((?:\\.|[^\\()])*)\)\s*Tj", b"".join(streams), re.DOTALL)
    return [re.sub(rb"\\(.)", rb"\1", text).decode("cp1252") for text in shown]


def write() -> None:
    """Write the workbook."""
    ordered = json.loads(Path("orders.json").read_text())
    orders = [{**invoice, "Ordered": ordered[invoice["Order"]]} for invoice in json.loads(INVOICES.read_text())]
    with zipfile.ZipFile(REPORT, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in {**PARTS, "xl/worksheets/sheet1.xml": sheet(orders)}.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + text)


def sheet(orders: list[dict[str, object]]) -> str:
    """Return the XML of the only sheet: a header, a row for each invoice, the sum of the differences."""
    rows = [row(1, [text_cell(place, 1, name, HEAD) for place, name in enumerate(COLUMNS)])]
    total = 0.0
    for number, order in enumerate(orders, 2):
        invoiced, ordered = float(str(order["Invoiced"])), float(str(order["Ordered"]))
        difference = round(invoiced - ordered, 2)
        total += difference
        words, money = (RED, RED_MONEY) if difference else (PLAIN, MONEY)
        cells = [text_cell(place, number, str(order[name]), words) for place, name in enumerate(COLUMNS[:3])]
        cells += [number_cell("D", number, invoiced, money), number_cell("E", number, ordered, money)]
        rows.append(row(number, [*cells, number_cell("F", number, difference, money, f"D{number}-E{number}")]))
    last = len(orders) + 1
    sums = [text_cell(0, last + 1, "Total", HEAD), number_cell("F", last + 1, total, MONEY, f"SUM(F2:F{last})")]
    rows.append(row(last + 1, sums))
    widths = '<cols><col min="1" max="6" width="18" customWidth="1"/></cols>'
    return f'<worksheet xmlns="{MAIN}">{widths}<sheetData>{"".join(rows)}</sheetData></worksheet>'


def row(number: int, cells: list[str]) -> str:
    """Return the XML of a row."""
    return f'<row r="{number}">{"".join(cells)}</row>'


def text_cell(place: int, number: int, text: str, style: int) -> str:
    """Return the XML of a cell with a text."""
    inline = f"<is><t>{escape(text)}</t></is>"
    return f'<c r="{"ABCDEF"[place]}{number}" s="{style}" t="inlineStr">{inline}</c>'


def number_cell(column: str, number: int, value: float, style: int, formula: str = "") -> str:
    """Return the XML of a cell with a number and its formula."""
    told = f"<f>{formula}</f>" if formula else ""
    return f'<c r="{column}{number}" s="{style}">{told}<v>{value:.2f}</v></c>'


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
STYLES = f"""<styleSheet xmlns="{MAIN}">
<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font>
<font><b/><sz val="11"/><name val="Calibri"/></font></fonts>
<fills count="3"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>
<fill><patternFill patternType="solid"><fgColor rgb="FFFF9999"/><bgColor indexed="64"/></patternFill></fill></fills>
<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>
<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>
<cellXfs count="5"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>
<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>
<xf numFmtId="0" fontId="0" fillId="2" borderId="0" xfId="0" applyFill="1"/>
<xf numFmtId="4" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="4" fontId="0" fillId="2" borderId="0" xfId="0" applyNumberFormat="1" applyFill="1"/></cellXfs>
<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>
</styleSheet>"""
PARTS = {
    "[Content_Types].xml": f"""<Types xmlns="{PACKAGE}/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{TYPE}.worksheet+xml"/>
<Override PartName="/xl/styles.xml" ContentType="{TYPE}.styles+xml"/>
</Types>""",
    "_rels/.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>
</Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">
<sheets><sheet name="Discrepancies" sheetId="1" r:id="rId1"/></sheets><calcPr fullCalcOnLoad="1"/>
</workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type="{OFFICE}/styles" Target="styles.xml"/>
</Relationships>""",
    "xl/styles.xml": STYLES,
}


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]]()
