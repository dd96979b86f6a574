"""What the worker updates the workbook with, in its desk: cells are written where they stand, and all else stays.

python3 update.py fill     writes figures and reconciliation into model.xlsx, as filled.xlsx, without results
python3 update.py finish   puts the results LibreOffice found (recalculated/filled.xlsx) into it, as Model.xlsx

A workbook that is loaded and saved by a library loses what the library does not know, such as charts. So the parts of
the file are edited as they are, and every part that needs no edit is copied byte by byte.
"""

from __future__ import annotations

import csv
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import openpyxl  # type: ignore[import-untyped]
from lxml import etree  # type: ignore[import-untyped]

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
OFFICE = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
Edit: TypeAlias = Callable[[str, Any], bool]
"""Edits a part of a workbook, by its name; returns whether it changed."""


def fill() -> None:
    """Write the new quarter and the restated last quarter; remove cached results of formulas, which are outdated."""
    model = openpyxl.load_workbook("model.xlsx")
    wanted = {
        name: cells(model[name], column)
        for name, column in (("Income", "F"), ("Balance", "F"), ("Reconciliation", "C"))
    }
    with Path("figures.csv").open(newline="") as file:
        new = {
            row["Item"]: row["Amount"] for row in csv.DictReader(file) if row["Quarter"] == model["Income"]["F4"].value
        }
    with Path("reconciliation.csv").open(newline="") as file:
        old = {row["Item"]: row for row in csv.DictReader(file)}
    values: dict[str, dict[str, str | float]] = {}
    for name in ("Income", "Balance"):
        values[name] = {cell: float(new[item]) for item, cell in wanted[name].items()}
    values["Reconciliation"] = {cell: float(old[item]["Filed"]) for item, cell in wanted["Reconciliation"].items()}
    for item, cell in wanted["Reconciliation"].items():
        if int(old[item]["Difference"]):
            values["Reconciliation"][cell.replace("C", "E")] = old[item]["Explained"]
    sheets = parts("model.xlsx")

    def edit(part: str, tree: Any) -> bool:
        if part not in sheets:
            return False
        for cell in tree.iter(f"{MAIN}c"):
            if cell.find(f"{MAIN}f") is not None:
                put(cell, None)
            elif cell.get("r") in values.get(sheets[part], {}):
                put(cell, values[sheets[part]].pop(cell.get("r")))
        return True

    edited("model.xlsx", "filled.xlsx", edit)
    if left := {name: list(each) for name, each in values.items() if each}:
        sys.exit(f"the workbook has no such cells: {left}")


def finish() -> None:
    """Write the recalculated results into the cells, and into the caches of the charts."""
    found = openpyxl.load_workbook("recalculated/filled.xlsx", data_only=True)
    sheets = parts("filled.xlsx")

    def edit(part: str, tree: Any) -> bool:
        if part in sheets:
            for cell in tree.iter(f"{MAIN}c"):
                if cell.find(f"{MAIN}f") is not None:
                    put(cell, found[sheets[part]][cell.get("r")].value)
            return True
        if part.startswith("xl/charts/chart"):
            for reference in tree.iter(f"{CHART}numRef"):
                remember(reference, found)
            return True
        return False

    edited("filled.xlsx", "Model.xlsx", edit)


def cells(sheet: Any, column: str) -> dict[str, str]:
    """Return the empty cells of a column, by the item in their row."""
    rows = range(5, sheet.max_row + 1)
    return {
        sheet[f"A{row}"].value: f"{column}{row}"
        for row in rows
        if sheet[f"A{row}"].value and waits(sheet, f"{column}{row}")
    }


def waits(sheet: Any, cell: str) -> bool:
    """Return whether a cell is empty, and formatted as an input."""
    return sheet[cell].value is None and sheet[cell].fill.fill_type == "solid"


def parts(path: str) -> dict[str, str]:
    """Return the names of sheets by the parts of the file they are in."""
    with zipfile.ZipFile(path) as file:
        book = etree.fromstring(file.read("xl/workbook.xml"))
        links = etree.fromstring(file.read("xl/_rels/workbook.xml.rels"))
    targets = {link.get("Id"): f"xl/{link.get('Target')}" for link in links}
    return {targets[sheet.get(f"{OFFICE}id")]: sheet.get("name") for sheet in book.iter(f"{MAIN}sheet")}


def edited(source: str, target: str, edit: Edit) -> None:
    """Copy a workbook part by part, and edit the parts that need it."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".xml"):
                tree = etree.fromstring(data)
                if edit(entry.filename, tree):
                    data = etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=True)
            new.writestr(entry, data)


def put(cell: Any, value: str | float | None) -> None:
    """Write a value into a cell; its formula and its style stay."""
    for child in list(cell):
        if child.tag != f"{MAIN}f":
            cell.remove(child)
    cell.attrib.pop("t", None)
    if value is None:
        return
    if isinstance(value, str) and cell.find(f"{MAIN}f") is None:
        cell.set("t", "inlineStr")
        etree.SubElement(etree.SubElement(cell, f"{MAIN}is"), f"{MAIN}t").text = value
    else:
        if isinstance(value, str):
            cell.set("t", "str")
        etree.SubElement(cell, f"{MAIN}v").text = value if isinstance(value, str) else f"{value:.15g}"


def remember(reference: Any, found: Any) -> None:
    """Write the current values of its cells into a chart's cache."""
    sheet, _, cells = reference.find(f"{CHART}f").text.replace("$", "").replace("'", "").partition("!")
    [values] = found[sheet][cells]
    cache = reference.find(f"{CHART}numCache")
    for child in list(cache):
        if child.tag != f"{CHART}formatCode":
            cache.remove(child)
    etree.SubElement(cache, f"{CHART}ptCount").set("val", str(len(values)))
    for place, cell in enumerate(values):
        if cell.value is not None:
            point = etree.SubElement(cache, f"{CHART}pt")
            point.set("idx", str(place))
            etree.SubElement(point, f"{CHART}v").text = f"{cell.value:.15g}"


if __name__ == "__main__":
    {"fill": fill, "finish": finish}[sys.argv[1]]()
