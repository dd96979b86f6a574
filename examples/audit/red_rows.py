"""Print each row's first cell, and whether all of the row is filled with red. The judge runs it in a desk."""

from __future__ import annotations

import json
import re
import zipfile
from xml.etree import ElementTree

NAMES = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def main() -> None:
    """Print the rows of the sheet Invoices, without the header and the total."""
    with zipfile.ZipFile("book.xlsx") as book:
        styles, sheet, words = (tree(book, name) for name in ("styles", find_sheet(book, "Invoices"), "sharedStrings"))
    texts = ["".join(part.text or "" for part in each.iter(f"{{{NAMES['m']}}}t")) for each in words]
    fills = [each.find("m:patternFill/m:fgColor", NAMES) for each in styles.iterfind("m:fills/m:fill", NAMES)]
    red = {at for at, colour in enumerate(fills) if colour is not None and is_red(colour.get("rgb", ""))}
    used = [int(each.get("fillId", 0)) in red for each in styles.iterfind("m:cellXfs/m:xf", NAMES)]
    rows = []
    for row in sheet.iterfind("m:sheetData/m:row", NAMES):
        cells = row.findall("m:c", NAMES)
        name = texts[int(cells[0].findtext("m:v", "0", NAMES))]
        if name.endswith(".pdf"):
            rows.append((name, all(used[int(cell.get("s", 0))] for cell in cells)))
    print(json.dumps(rows))


def find_sheet(book: zipfile.ZipFile, name: str) -> str:
    """Return the part of a workbook that has a sheet."""
    sheets = {
        each.get("name"): each.get(RELATION) for each in tree(book, "workbook").iterfind("m:sheets/m:sheet", NAMES)
    }
    parts = {each.get("Id"): each.get("Target", "") for each in tree(book, "_rels/workbook.xml", ".rels")}
    return parts[sheets[name]].removeprefix("/xl/").removesuffix(".xml")


def tree(book: zipfile.ZipFile, name: str, suffix: str = ".xml") -> ElementTree.Element:
    """Read one part of a workbook."""
    return ElementTree.fromstring(book.read(f"xl/{name}{suffix}"))  # noqa: S314 - it runs in a desk


def is_red(colour: str) -> bool:
    """Return whether a colour such as `FFFF9999` is red."""
    if not re.fullmatch("[0-9A-Fa-f]{8}", colour):
        return False
    red, green, blue = (int(colour[at : at + 2], 16) for at in (2, 4, 6))
    return red > 150 and red - max(green, blue) > 40


if __name__ == "__main__":
    main()
