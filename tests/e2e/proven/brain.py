"""A worker that makes the same small workbook each time."""

from __future__ import annotations

import io
import zipfile

from hotdesk.brain.models.scripted import Hands, step

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
PARTS = {
    "_rels/.rels": f"""<Relationships xmlns="{PACKAGE}">
<Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>""",
    "xl/workbook.xml": f"""<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">
<sheets><sheet name="Stock" sheetId="1" r:id="rId1"/></sheets></workbook>""",
    "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{PACKAGE}">
<Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>""",
    "xl/worksheets/sheet1.xml": f"""<worksheet xmlns="{MAIN}"><sheetData>
<row r="1"><c r="A1" t="str"><v>Thing</v></c><c r="B1" t="str"><v>Amount</v></c></row>
<row r="2"><c r="A2" t="str"><v>nuts</v></c><c r="B2"><v>5</v></c></row>
<row r="3"><c r="B3"><f>SUM(B2:B2)</f><v>5</v></c></row></sheetData></worksheet>""",
}


async def count(hands: Hands) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, told in PARTS.items():
            file.writestr(zipfile.ZipInfo(name), told)
    await hands.write("stock.xlsx", made.getvalue())


PLAN = (step(count, makes=["stock.xlsx"]),)
