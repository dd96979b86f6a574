"""Exercises a workbook: reads, recalculates, changes and prints it. Runs inside a clean desk."""

from __future__ import annotations

import html.parser
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import office  # type: ignore[import-not-found]
import xlsx_raw  # type: ignore[import-not-found]
import xlsx_sources  # type: ignore[import-not-found]

MOST_PRINTED = 12
"""Maximum number of printed sheets."""
ROWS, COLUMNS = 45, 30
"""Maximum rows and columns of a printed page."""
LARGEST_AREA = 2_000_000
"""Maximum cells of an area that is read at once."""
ERRORS = 4
"""LibreOffice's flag for formulas that result in errors."""
MAX_TEXT_CHARS = 500


def look(request: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[int, int, bytes]]]:
    report = xlsx_raw.tell(request["path"])
    report["sums"] = [xlsx_sources.sum_column(each["path"], each["column"]) for each in request["sources"]]
    report["like"] = _summarize_input(request["like"]) if request["like"] else None
    with tempfile.TemporaryDirectory() as folder:
        pages = str(Path(folder, "pages.pdf"))
        _open_up(request, report, pages)
        return report, office.draw(pages, most=2 * MOST_PRINTED)


def _open_up(request: dict[str, Any], report: dict[str, Any], pages: str) -> None:
    with office.open_document(request["path"], ReadOnly=False) as document:
        document.IsIterationEnabled = False  # so that a circular reference results in an error
        document.calculateAll()
        calculate(document, report["sheets"])
        if request["colours"]:
            _apply_conditional_fills(document, report["sheets"])
        report["mutations"] = [mutate(document, each) for each in request["mutate"]]
        report["tools"] = {"LibreOffice": office.read_version(), "Python": platform.python_version()}
        _print_sheets(document, pages)


def _summarize_input(path: str) -> dict[str, Any]:
    try:
        return dict(xlsx_raw.summarize_workbook(path))
    except Exception as e:  # noqa: BLE001 - a broken input is not a fault of the workbook; it is reported as such
        return {"why": f"{type(e).__name__}: {e}"[:MAX_TEXT_CHARS]}


def calculate(document: Any, sheets: list[dict[str, Any]]) -> None:
    for sheet in sheets:
        formulas = [cell for cell in sheet["cells"] if cell[4]]
        if formulas:
            found = document.Sheets.getByName(sheet["name"])
            broken = found.queryFormulaCells(ERRORS)
            errors = (
                {_get_cell_place(each): each.String[:MAX_TEXT_CHARS] for each in broken.Cells} if broken.Count else {}
            )
            add(formulas, _read_values(found, formulas), errors)


def add(formulas: list[list[Any]], values: dict[tuple[int, int], object], errors: dict[tuple[int, int], str]) -> None:
    for cell in formulas:
        at = (cell[0], cell[1])
        value = values[at]
        if at in errors:
            cell += ["e", errors[at]]
        elif isinstance(value, float):
            cell += ["n", value]
        else:
            cell += ["t", str(value or "")[:MAX_TEXT_CHARS]]


def _read_values(sheet: Any, formulas: list[list[Any]]) -> dict[tuple[int, int], object]:
    """Return the values of formula cells, read at once as one area unless that is too large."""
    columns, rows = [cell[0] for cell in formulas], [cell[1] for cell in formulas]
    left, top, right, bottom = min(columns), min(rows), max(columns), max(rows)
    if (right - left + 1) * (bottom - top + 1) > LARGEST_AREA:
        cells = {at: sheet.getCellByPosition(at[0] - 1, at[1] - 1) for at in zip(columns, rows, strict=True)}
        return {at: cell.getDataArray()[0][0] for at, cell in cells.items()}
    data = sheet.getCellRangeByPosition(left - 1, top - 1, right - 1, bottom - 1).getDataArray()
    return {(column, row): data[row - top][column - left] for column, row in zip(columns, rows, strict=True)}


def _get_cell_place(cell: Any) -> tuple[int, int]:
    return cell.CellAddress.Column + 1, cell.CellAddress.Row + 1


def mutate(document: Any, request: dict[str, Any]) -> dict[str, object]:
    """Set an input, report the outputs before and after, and restore the input."""
    cell = find_cell(document, request["set"])
    if cell is None:
        return {"why": "the sheet does not exist"}
    outputs = [find_cell(document, each) for each in request["outputs"]]
    before, formula, kind = [read(each) for each in outputs], cell.Formula, cell.Type.value
    document.calculateAll()
    for (sheet, at), output, was in zip(request["outputs"], outputs, before, strict=True):
        if read(output) != was:
            return {"why": f"{sheet}!{at} gives a different result at each calculation"[:MAX_TEXT_CHARS]}
    if isinstance(request["to"], str):
        cell.setString(request["to"])
    else:
        cell.setValue(float(request["to"]))
    document.calculateAll()
    after = [read(each) for each in outputs]
    cell.setString(formula) if kind == "TEXT" else cell.setFormula(formula)
    document.calculateAll()
    return {"before": before, "after": after, "held": kind, "was": formula[:MAX_TEXT_CHARS]}


def find_cell(document: Any, output: tuple[str, str]) -> Any:
    """Return a cell, or `None` if there is no such sheet."""
    (sheet, at), sheets = output, document.Sheets
    return sheets.getByName(sheet).getCellRangeByName(at).getCellByPosition(0, 0) if sheets.hasByName(sheet) else None


def read(cell: Any) -> object:
    """Return the value that a cell shows: a number or a text."""
    if cell is None:
        return None
    if cell.getError():
        return str(cell.String)[:MAX_TEXT_CHARS]
    value = cell.getDataArray()[0][0]
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else value


class Colours(html.parser.HTMLParser):
    """Reads the colours of cells, including conditional formats, from LibreOffice's HTML export."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        by_name = dict(attributes)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag == "td" and self.tables and self.tables[-1]:
            colour = (by_name.get("bgcolor") or "").lstrip("#").upper()
            self.tables[-1][-1] += [colour] * int(by_name.get("colspan") or 1)


def _apply_conditional_fills(document: Any, sheets: list[dict[str, Any]]) -> None:
    if not any(sheet["formats"] for sheet in sheets):
        return
    reader = Colours()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "colours.html")
        document.storeToURL(target.as_uri(), office.make_properties({"FilterName": "HTML (StarCalc)"}))
        reader.feed(target.read_text(errors="replace"))
    for table, sheet in zip(reader.tables, sheets, strict=False):
        if sheet["formats"]:
            _recolour(document.Sheets.getByName(sheet["name"]), table, sheet["cells"])


def _recolour(sheet: Any, table: list[list[str]], cells: list[list[Any]]) -> None:
    """Apply the colours of an exported table if it matches the used area of a sheet."""
    cursor = sheet.createCursor()
    cursor.gotoStartOfUsedArea(False)
    cursor.gotoEndOfUsedArea(True)
    area = cursor.RangeAddress
    width, height = area.EndColumn - area.StartColumn + 1, area.EndRow - area.StartRow + 1
    if len(table) != height or any(len(row) != width for row in table):
        return  # merged or hidden cells: their own fill is reported
    for cell in cells:
        cell[5] = table[cell[1] - 1 - area.StartRow][cell[0] - 1 - area.StartColumn][:6]


def _print_sheets(document: Any, target: str) -> None:
    styles, sheets = document.StyleFamilies.getByName("PageStyles"), document.Sheets
    for place, name in enumerate(sheets.ElementNames):
        sheet = sheets.getByName(name)
        style = styles.getByName(sheet.PageStyle)
        style.ScaleToPagesX, style.ScaleToPagesY = 1, 0
        sheet.setPrintAreas(_choose_areas(sheet) if place < MOST_PRINTED else ())
    office.as_pdf(document, target, PageRange=f"1-{2 * MOST_PRINTED}")


def _choose_areas(sheet: Any) -> tuple[Any, ...]:
    """Return the first rows, and the last ones of a long sheet. Drawings over the cells count as used."""
    cursor = sheet.createCursor()
    cursor.gotoEndOfUsedArea(False)
    end = cursor.RangeAddress
    column, row, drawn = end.EndColumn, end.EndRow, sheet.DrawPage.Count
    last = min(max(column, 7 if drawn else 0), COLUMNS - 1)
    first = sheet.getCellRangeByPosition(0, 0, last, min(max(row, 30 if drawn else 0), ROWS - 1))
    if row < ROWS:
        return (first.RangeAddress,)
    return first.RangeAddress, sheet.getCellRangeByPosition(0, max(ROWS, row - ROWS + 1), last, row).RangeAddress


def main() -> None:
    try:
        report, pages = look(json.load(sys.stdin))
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to parsers and office, it is a broken file
        report, pages = {"unreadable": f"{type(e).__name__}: {e}"[:MAX_TEXT_CHARS]}, []
    office.tell(report, pages)
