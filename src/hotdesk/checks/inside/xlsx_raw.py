"""Reads the raw content of a workbook without an office program. Runs inside a clean desk; standard library only.

A cell is a list: column, row, kind, value, formula, fill. Its kind is `n` for a number, `t` for text, `b` for a
boolean, `e` for an error and empty for no value. A formula is its text; `@B2` means that of B2, shifted, and `{B2}`
part of the array formula in B2.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import sheet_look  # type: ignore[import-not-found]
import xlsx_colours  # type: ignore[import-not-found]

MAIN = sheet_look.MAIN
EXTENDED = "{http://schemas.microsoft.com/office/spreadsheetml/2009/9/main}"
SERIES = "{http://schemas.openxmlformats.org/drawingml/2006/chart}f"
MOST_CELLS = 200_000
MOST_SHEETS = 50
MOST_NAMES = 1000
MAX_TEXT_CHARS = 500
LONGEST_FORMULA = 8192
BROKEN = "#REF!"
PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})", re.ASCII)


class Raw:
    """An unpacked workbook."""

    def __init__(self, path: str) -> None:
        self.book: Any = sheet_look.OpenedSheet(path)
        self.names = set(self.book.file.namelist())
        self.remaining = MOST_CELLS
        self.root: ElementTree.Element = self.book.parse_part("xl/workbook.xml")
        self.fills = xlsx_colours.list_fill_colours(self.book) if "xl/styles.xml" in self.names else []

    def read_relationships(self, part: str) -> dict[str, tuple[str, str]]:
        """Return a part's relations by id: the last word of each kind, and the target part."""
        folder, name = posixpath.split(part)
        file = f"{folder}/_rels/{name}.rels"
        if file not in self.names:
            return {}
        return {
            each.get("Id", ""): (
                each.get("Type", "").rpartition("/")[2],
                resolve_target(folder, each.get("Target", "")),
            )
            for each in self.book.parse_part(file)
        }

    def find_related_parts(self, part: str, *kinds: str) -> list[str]:
        return [
            target for kind, target in self.read_relationships(part).values() if kind in kinds and target in self.names
        ]

    def read_sheets(self) -> list[dict[str, object]]:
        found, targets = list[dict[str, object]](), self.read_relationships("xl/workbook.xml")
        for sheet in self.root.iter(MAIN + "sheet"):
            kind, part = targets[sheet.get(sheet_look.RELATION, "")]
            content = self.read_sheet(part) if kind == "worksheet" else self.describe_chartsheet(part)
            hidden = sheet.get("state", "visible") != "visible"
            found.append({"name": sheet.get("name", "")[:MAX_TEXT_CHARS], "hidden": hidden, **content})
        if len(found) > MOST_SHEETS:
            raise ValueError(f"the workbook has more than {MOST_SHEETS} sheets")
        return found

    def describe_chartsheet(self, part: str) -> dict[str, object]:
        """Describe a chart sheet, which has no cells."""
        counts: dict[str, object] = {"charts": self.count_charts(part)}
        return {"cells": [], **dict.fromkeys(("hidden_rows", "pivots", "validations", "formats"), 0), **counts}

    def read_sheet(self, part: str) -> dict[str, object]:
        root = self.book.parse_part(part)
        cells = list(self.iterate_cells(root))
        self.remaining -= len(cells)
        if self.remaining < 0:
            raise ValueError(f"the workbook has more than {MOST_CELLS} cells")
        return {
            "cells": cells,
            **sheet_look.count_hidden(root),
            "charts": self.count_charts(part),
            "pivots": len(self.find_related_parts(part, "pivotTable")),
            "validations": count(root, "dataValidation"),
            "formats": count(root, "cfRule"),
        }

    def count_charts(self, part: str) -> int:
        """Count the charts that a sheet shows; unreferenced charts in the file do not count."""
        return sum(self.count_drawn_charts(drawing) for drawing in self.find_related_parts(part, "drawing"))

    def count_drawn_charts(self, drawing: str) -> int:
        targets = self.read_relationships(drawing)
        named = (each.get(sheet_look.RELATION, "") for each in self.book.parse_part(drawing).iter() if _is_chart(each))
        found = [targets[name] for name in named if name in targets]
        return sum(kind in ("chart", "chartEx") and target in self.names for kind, target in found)

    def iterate_cells(self, root: ElementTree.Element) -> Iterator[list[object]]:
        shared: dict[str, str] = {}
        arrays: list[tuple[str, tuple[int, int, int, int]]] = []
        for cell in root.iterfind(sheet_look.CELLS):
            at, formula = cell.get("r", ""), _read_formula(cell, shared, arrays)
            kind, value = self.read_value(cell)
            column, row = _parse_cell_place(at)
            if not formula and arrays:
                formula = next((f"{{{of}}}" for of, area in arrays if _is_in_area(column, row, area)), "")
            if kind or formula:
                yield [column, row, kind, value, formula, self.fill(cell)]

    def read_value(self, cell: ElementTree.Element) -> tuple[str, object]:
        kind, found = cell.get("t", "n"), cell.find(MAIN + "v")
        if kind == "inlineStr":
            return "t", sheet_look.inline(cell)[:MAX_TEXT_CHARS]
        text = (found.text or "") if found is not None else ""
        if found is None or (not text and kind != "str"):
            return "", None
        if kind == "s":
            return "t", self.book.shared[int(text)][:MAX_TEXT_CHARS]
        if kind in ("n", "b"):
            return kind, float(text)
        return ("e" if kind == "e" else "t"), text[:MAX_TEXT_CHARS]

    def fill(self, cell: ElementTree.Element) -> str:
        style = int(cell.get("s", "0"))
        return str(self.fills[style]) if style < len(self.fills) else ""

    def list_defined_names(self) -> list[list[str]]:
        found = [
            [each.get("name", "")[:MAX_TEXT_CHARS], (each.text or "")[:MAX_TEXT_CHARS]]
            for each in self.root.iter(MAIN + "definedName")
        ]
        return found[:MOST_NAMES]

    def list_tables(self) -> list[list[str]]:
        """Return the tables of the workbook: name, sheet and area."""
        found, targets = list[list[str]](), self.read_relationships("xl/workbook.xml")
        for sheet in self.root.iter(MAIN + "sheet"):
            _, part = targets[sheet.get(sheet_look.RELATION, "")]
            for each in self.find_related_parts(part, "table"):
                table = self.book.parse_part(each)
                name = table.get("displayName", "")
                found.append([text[:MAX_TEXT_CHARS] for text in (name, sheet.get("name", ""), table.get("ref", ""))])
        return found[:MOST_NAMES]

    def list_broken_charts(self) -> list[str]:
        charts = sorted(name for name in self.names if re.fullmatch(r"xl/charts/chart[^/]*\.xml", name))
        return [name[:MAX_TEXT_CHARS] for name in charts[:MOST_NAMES] if self.is_broken(name)]

    def is_broken(self, name: str) -> bool:
        return any(BROKEN in (each.text or "") for each in self.book.parse_part(name).iter(SERIES))


def _read_formula(
    cell: ElementTree.Element, shared: dict[str, str], arrays: list[tuple[str, tuple[int, int, int, int]]]
) -> str:
    found, at = cell.find(MAIN + "f"), cell.get("r", "")
    if found is None:
        return ""
    text = (found.text or "")[:LONGEST_FORMULA]
    kind, index = found.get("t", ""), found.get("si", "")
    if kind == "array":
        arrays.append((at, parse_area(found.get("ref", at))))
    if kind == "shared" and not text:
        return "@" + shared[index]
    if kind == "shared":
        shared[index] = at
    return text


def _parse_cell_place(at: str) -> tuple[int, int]:
    """Return a cell's column and row, from 1."""
    found = PLACE.fullmatch(at)
    if found is None:
        raise ValueError("the reference of a cell is missing or invalid; it must be like B2")
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    return column, int(found[2])


def parse_area(text: str) -> tuple[int, int, int, int]:
    """Parse an area such as `A1:B3`."""
    first, _, last = text.partition(":")
    return (*_parse_cell_place(first), *_parse_cell_place(last or first))


def _is_in_area(column: int, row: int, where: tuple[int, int, int, int]) -> bool:
    return where[0] <= column <= where[2] and where[1] <= row <= where[3]


def count(root: ElementTree.Element, name: str) -> int:
    return sum(1 for space in (MAIN, EXTENDED) for _ in root.iter(space + name))


def resolve_target(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")


def tell(path: str) -> dict[str, Any]:
    raw = Raw(path)
    return {
        "sheets": raw.read_sheets(),
        "names": raw.list_defined_names(),
        "tables": raw.list_tables(),
        "broken": raw.list_broken_charts(),
    }


def summarize_workbook(path: str) -> dict[str, Any]:
    report = tell(path)
    for sheet in report["sheets"]:
        sheet["formulas"] = sum(1 for cell in sheet.pop("cells") if cell[4])
    return {"sheets": report["sheets"], "names": [name for name, _ in report["names"]]}


def _is_chart(element: ElementTree.Element) -> bool:
    return str(element.tag).rpartition("}")[2] == "chart"
