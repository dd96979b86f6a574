"""Writes the worker's workbook at its desk. Standard library only.

python3 report.py          the workbook, from invoices.json and orders.json
python3 report.py tidy     the same after tidying invoices.json up, which ruins it
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

INVOICES, ORDERS = Path("invoices.json"), Path("orders.json")
REPORT = "Reconciliation.xlsx"
COLUMNS = ("Invoice", "Order", "Vendor", "Invoiced", "Ordered", "Difference")
PLAIN, HEAD, RED = range(3)
"""Indexes of styles in STYLES."""


def main() -> None:
    """Write the workbook."""
    if sys.argv[1:] == ["tidy"]:
        tidy()
    ordered = json.loads(ORDERS.read_text())
    rows = [{**invoice, "Ordered": ordered[invoice["Order"]]} for invoice in json.loads(INVOICES.read_text())]
    with zipfile.ZipFile(REPORT, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in {**PARTS, "xl/worksheets/sheet1.xml": sheet(rows)}.items():
            file.writestr(name, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n' + text)


def tidy() -> None:
    """Keep one invoice for each vendor: a mistake that loses the others, and cannot be undone."""
    each = {invoice["Vendor"]: invoice for invoice in json.loads(INVOICES.read_text())}
    INVOICES.write_text(json.dumps(list(each.values())))
    Path(REPORT).write_text("not yet")
    sys.exit(f"{len(each)} invoices are left, and nobody knows where the others are")


def sheet(rows: list[dict[str, object]]) -> str:
    """Return the XML of the only sheet: a header, a row for each invoice, the sum of the differences."""
    shown = [cells(1, COLUMNS, HEAD)]
    for number, row in enumerate(rows, 2):
        invoiced, ordered = int(str(row["Invoiced"])), int(str(row["Ordered"]))
        style = RED if invoiced != ordered else PLAIN
        words = [str(row[name]) for name in COLUMNS[:3]]
        values: list[str | float] = [*words, invoiced / 100, ordered / 100]
        difference = formula(f"F{number}", f"D{number}-E{number}", (invoiced - ordered) / 100, style)
        shown.append(cells(number, values, style) + difference)
    last = len(rows) + 1
    total = sum(int(str(row["Invoiced"])) - int(str(row["Ordered"])) for row in rows) / 100
    shown.append(cells(last + 1, ("Total",), HEAD) + formula(f"F{last + 1}", f"SUM(F2:F{last})", total, HEAD))
    data = "".join(f'<row r="{number}">{told}</row>' for number, told in enumerate(shown, 1))
    return f'<worksheet xmlns="{MAIN}"><sheetData>{data}</sheetData></worksheet>'


def cells(number: int, values: Sequence[str | float], style: int) -> str:
    """Return the XML of the cells of a row."""
    return "".join(cell(f"{letter}{number}", value, style) for letter, value in zip("ABCDEF", values))  # noqa: B905


def cell(place: str, value: str | float, style: int) -> str:
    """Return the XML of a cell with a text or a number."""
    if isinstance(value, str):
        return f'<c r="{place}" s="{style}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}" s="{style}"><v>{value:.2f}</v></c>'


def formula(place: str, told: str, value: float, style: int) -> str:
    """Return the XML of a cell with a formula."""
    return f'<c r="{place}" s="{style}"><f>{told}</f><v>{value:.2f}</v></c>'


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
<cellXfs count="3"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>
<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>
<xf numFmtId="0" fontId="0" fillId="2" borderId="0" xfId="0" applyFill="1"/></cellXfs>
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
<sheets><sheet name="Reconciliation" sheetId="1" r:id="rId1"/></sheets><calcPr fullCalcOnLoad="1"/>
</workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{PACKAGE}/relationships">
<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type="{OFFICE}/styles" Target="styles.xml"/>
</Relationships>""",
    "xl/styles.xml": STYLES,
}


if __name__ == "__main__":
    main()
