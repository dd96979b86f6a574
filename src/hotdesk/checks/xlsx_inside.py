"""What is in a workbook: run inside a clean desk by its own Python, standard library only. Prints JSON."""

from __future__ import annotations

import json
import posixpath
import sys
import zipfile
from xml.etree import ElementTree

LARGEST = 16 << 20
"""Bytes of the largest part that is unpacked."""
MOST_CELLS = 20_000
LONGEST = 500
"""Characters of the longest text that is told."""
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


class Book:
    """One workbook, opened."""

    def __init__(self, path: str) -> None:
        self.file = zipfile.ZipFile(path)
        names = self.file.namelist()
        self.shared = self.texts() if "xl/sharedStrings.xml" in names else []
        self.fills = self.styles() if "xl/styles.xml" in names else []

    def part(self, name: str) -> ElementTree.Element:
        """Parse one part."""
        with self.file.open(name) as source:
            data = source.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(name + " is too large")
        return ElementTree.fromstring(data)  # noqa: S314 - it parses where it can hurt nobody

    def texts(self) -> list[str]:
        """Give the texts that cells share."""
        found = self.part("xl/sharedStrings.xml").iter(MAIN + "si")
        return ["".join(text.text or "" for text in item.iter(MAIN + "t")) for item in found]

    def styles(self) -> list[str]:
        """Give the colour each style fills a cell with; empty: none."""
        root, colours = self.part("xl/styles.xml"), []
        for fill in root.iterfind(MAIN + "fills/" + MAIN + "fill"):
            pattern = fill.find(MAIN + "patternFill")
            colour = pattern.find(MAIN + "fgColor") if pattern is not None else None
            solid = pattern is not None and pattern.get("patternType") == "solid"
            colours.append(colour.get("rgb", "") if solid and colour is not None else "")
        styles = root.iterfind(MAIN + "cellXfs/" + MAIN + "xf")
        return [colours[int(style.get("fillId", "0"))] for style in styles]

    def sheets(self) -> list[dict[str, object]]:
        """Give every sheet with its cells."""
        targets = {each.get("Id"): each.get("Target", "") for each in self.part("xl/_rels/workbook.xml.rels")}
        found: list[dict[str, object]] = []
        for sheet in self.part("xl/workbook.xml").iter(MAIN + "sheet"):
            target = posixpath.normpath(posixpath.join("/xl", targets[sheet.get(RELATION)])).lstrip("/")
            cells = [self.cell(cell) for cell in self.part(target).iter(MAIN + "c")][: MOST_CELLS + 1]
            found.append({"name": sheet.get("name", "")[:LONGEST], "cells": cells})
        return found

    def cell(self, cell: ElementTree.Element) -> dict[str, object]:
        """Give one cell as it was last calculated."""
        kind, value, style = cell.get("t", "n"), cell.findtext(MAIN + "v"), cell.get("s")
        told: object = value or None  # a formula that was never calculated has an empty value
        if kind == "inlineStr":
            told = "".join(text.text or "" for text in cell.iter(MAIN + "t"))
        elif kind == "s" and value:
            told = self.shared[int(value)]
        elif kind == "n" and value:
            told = float(value)
        return {
            "at": cell.get("r", "")[:LONGEST],
            "value": told[:LONGEST] if isinstance(told, str) else told,
            "formula": (cell.findtext(MAIN + "f") or "")[:LONGEST],
            "fill": self.fills[int(style)][:LONGEST] if style is not None and self.fills else "",
            "error": kind == "e",
        }


def look(path: str) -> dict[str, object]:
    """Say what is in a workbook, or why it cannot be opened."""
    try:
        return {"sheets": Book(path).sheets()}
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:LONGEST]}


if __name__ == "__main__":
    print(json.dumps(look(sys.argv[1])))
