"""Reads a workbook. Runs inside a clean desk with its own Python; standard library only. Prints JSON."""

from __future__ import annotations

import json
import platform
import posixpath
import re
import sys
import zipfile
from xml.etree import ElementTree

MAX_PART_BYTES = 16 << 20
"""Maximum bytes of an unpacked part."""
MOST_CELLS = 20_000
MAX_TEXT_CHARS = 500
"""Maximum characters of a reported text."""
MAX_TABLE_BYTES = 128 << 20
"""Maximum bytes of an unpacked part of a workbook whose rows are read."""
MOST_ROWS, MOST_COLUMNS, MOST_TEXTS = 50_001, 1000, 1_000_000
MAX_CELL_CHARS = 32_767
"""Maximum characters of a cell, as in office programs."""
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
CELLS = f"{MAIN}sheetData/{MAIN}row/{MAIN}c"
"""Path of cells; office programs show no such elements elsewhere."""
PLACES = {
    "officeDocument": "/xl/workbook.xml",
    "sharedStrings": "/xl/sharedStrings.xml",
    "styles": "/xl/styles.xml",
    "theme": "/xl/theme/theme1.xml",
}
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


class OpenedSheet:
    """An opened workbook."""

    def __init__(self, path: str, largest: int = MAX_PART_BYTES) -> None:
        self.file, self.largest = zipfile.ZipFile(path), largest
        names = self.file.namelist()
        self.require_one()
        self.shared = self.read_texts() if "xl/sharedStrings.xml" in names else []
        self.fills = self.read_styles() if "xl/styles.xml" in names else []

    def parse_part(self, name: str) -> ElementTree.Element:
        with self.file.open(name) as source:
            data = source.read(self.largest + 1)
        if len(data) > self.largest:
            raise ValueError(f"{name} in the workbook unpacks to more than {self.largest >> 20} MiB")
        return ElementTree.fromstring(data)  # noqa: S314 - it parses where it can hurt nobody

    def require_one(self) -> None:
        """Refuse a workbook whose relations, which office programs follow, name other parts."""
        ways = {"xl/_rels/workbook.xml.rels": ("sharedStrings", "styles", "theme"), "_rels/.rels": ("officeDocument",)}
        for name, kinds in ways.items():
            relations = list(self.parse_part(name))
            if len({each.get("Id") for each in relations}) != len(relations):
                raise ValueError("two relationships of the workbook have the same Id")
            for each in relations:
                kind, target = each.get("Type", "").rpartition("/")[2], each.get("Target", "")
                folder = "/xl" if name.startswith("xl/") else "/"
                if kind in kinds and posixpath.normpath(posixpath.join(folder, target)) != PLACES[kind]:
                    raise ValueError("a main part of the workbook is not at its standard location: " + PLACES[kind])

    def read_texts(self) -> list[str]:
        return [_get_shown_text(item) for item in self.parse_part("xl/sharedStrings.xml").iterfind(MAIN + "si")]

    def read_styles(self) -> list[str]:
        """Return the fill colour of each style, or `""` for none."""
        root, colours = self.parse_part("xl/styles.xml"), []
        for fill in root.iterfind(MAIN + "fills/" + MAIN + "fill"):
            pattern = fill.find(MAIN + "patternFill")
            colour = pattern.find(MAIN + "fgColor") if pattern is not None else None
            solid = pattern is not None and pattern.get("patternType") == "solid"
            colours.append(colour.get("rgb", "") if solid and colour is not None else "")
        styles = root.iterfind(MAIN + "cellXfs/" + MAIN + "xf")
        return [colours[int(style.get("fillId", "0"))] for style in styles]

    def read_sheets(self) -> list[dict[str, object]]:
        targets = {each.get("Id"): each.get("Target", "") for each in self.parse_part("xl/_rels/workbook.xml.rels")}
        found: list[dict[str, object]] = []
        for sheet in self.parse_part("xl/workbook.xml").iter(MAIN + "sheet"):
            target = posixpath.normpath(posixpath.join("/xl", targets[sheet.get(RELATION)])).lstrip("/")
            root = self.parse_part(target)
            cells = [self.describe_cell(cell) for cell in root.iterfind(CELLS)][: MOST_CELLS + 1]
            hidden = sheet.get("state", "visible") != "visible"
            name = sheet.get("name", "")[:MAX_TEXT_CHARS]
            found.append({"name": name, "cells": cells, "hidden": hidden, **count_hidden(root)})
        return found

    def describe_cell(self, cell: ElementTree.Element) -> dict[str, object]:
        kind, value, style = cell.get("t", "n"), cell.findtext(MAIN + "v"), cell.get("s")
        content: object = value or None  # a formula that was never calculated has an empty value
        if kind == "inlineStr":
            content = inline(cell)
        elif kind == "s" and value:
            content = self.shared[int(value)]
        elif kind == "n" and value:
            content = float(value)
        return {
            "at": cell.get("r", "")[:MAX_TEXT_CHARS],
            "value": content[:MAX_TEXT_CHARS] if isinstance(content, str) else content,
            "formula": (cell.findtext(MAIN + "f") or "")[:MAX_TEXT_CHARS],
            "fill": self.fills[int(style)][:MAX_TEXT_CHARS] if style is not None and self.fills else "",
            "error": kind == "e",
        }


def count_hidden(root: ElementTree.Element) -> dict[str, int]:
    """Count the rows and columns of a sheet that are not shown."""
    return {
        "hidden_rows": sum(_is_hidden(row, "ht") for row in root.iter(MAIN + "row")),
        "hidden_columns": sum(_is_hidden(each, "width") for each in root.iter(MAIN + "col")),
    }


def _is_hidden(each: ElementTree.Element, size: str) -> bool:
    """Return whether a row or a column is invisible: hidden, or with almost no height or width."""
    return each.get("hidden") in ("1", "true") or float(each.get(size) or 9) < 1


def _get_shown_text(item: ElementTree.Element) -> str:
    """Return a text as shown: its own text and its runs, without phonetic guides."""
    words = [*item.iterfind(MAIN + "t"), *item.iterfind(f"{MAIN}r/{MAIN}t")]
    return "".join(each.text or "" for each in words)


def inline(cell: ElementTree.Element) -> str:
    return "".join(_get_shown_text(each) for each in cell.iterfind(MAIN + "is"))


def look(path: str) -> dict[str, object]:
    """Return the content of a workbook, or why it cannot be opened."""
    try:
        return {"sheets": OpenedSheet(path).read_sheets(), "tools": {"Python": platform.python_version()}}
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:MAX_TEXT_CHARS]}


class SheetRows:
    """The rows of a workbook's first visible sheet, as texts."""

    def __init__(self, path: str) -> None:
        self.book = OpenedSheet(path, MAX_TABLE_BYTES)

    def read(self) -> list[list[str]]:
        rows: dict[int, dict[int, str]] = {}
        count = 0
        for cell in self.book.parse_part(self.find_sheet()).iterfind(CELLS):
            if text := self.read_cell(cell):
                column, row = _find_place(cell.get("r", ""))
                rows.setdefault(row, {})[column] = text[:MAX_CELL_CHARS]
                count += 1
            if count > MOST_TEXTS or len(rows) > MOST_ROWS:
                raise ValueError(f"the sheet has more than {MOST_ROWS - 1} rows, or more than {MOST_TEXTS} cells")
        return [[cells.get(at, "") for at in range(1, max(cells) + 1)] for _, cells in sorted(rows.items())]

    def find_sheet(self) -> str:
        targets = {
            each.get("Id"): each.get("Target", "") for each in self.book.parse_part("xl/_rels/workbook.xml.rels")
        }
        for sheet in self.book.parse_part("xl/workbook.xml").iter(MAIN + "sheet"):
            if sheet.get("state", "visible") == "visible":
                return posixpath.normpath(posixpath.join("/xl", targets[sheet.get(RELATION)])).lstrip("/")
        raise ValueError("the workbook has no visible sheet")

    def read_cell(self, cell: ElementTree.Element) -> str:
        kind, text = cell.get("t", "n"), cell.findtext(MAIN + "v") or ""
        if kind == "inlineStr":
            return inline(cell)
        if kind == "s" and text:
            return self.book.shared[int(text)]
        return {"0": "FALSE", "1": "TRUE"}.get(text, text) if kind == "b" else text


def _find_place(at: str) -> tuple[int, int]:
    """Return a cell's column and row, from 1."""
    found = re.fullmatch(r"([A-Z]{1,3})([0-9]{1,7})", at, re.ASCII)
    if found is None:
        raise ValueError("the reference of a cell is missing or invalid; it must be like B2")
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    if column > MOST_COLUMNS:
        raise ValueError(f"the sheet has more than {MOST_COLUMNS} columns")
    return column, int(found[2])


def _look_at_rows(path: str) -> dict[str, object]:
    """Return a workbook's rows, or why it cannot be opened."""
    try:
        return {"rows": SheetRows(path).read()}
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": f"{type(e).__name__}: {e}"[:MAX_TEXT_CHARS]}


if __name__ == "__main__":
    request = json.load(sys.stdin)
    print(json.dumps(_look_at_rows(request["path"]) if request.get("rows") else look(request["path"])))
