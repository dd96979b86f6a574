"""The check of a workbook without an office suite: columns, rows, sums, and red rows where values differ.

The table rules are those of `xlsx/`. Only simple formulas are recalculated, on the host.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import chain

from hotdesk.brief.faults import ExpectationError, make_unknown_error
from hotdesk.checks.count_range import Span, format_count
from hotdesk.checks.evidence import (
    MAX_TEXT_CHARS,
    limit_faults,
    look,
    make_unreadable_verdict,
    read_json,
    read_number,
    read_text,
)
from hotdesk.checks.expectations import explain_column
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.checks.xlsx.expect import CENT, Expected
from hotdesk.checks.xlsx.faults import format_error, format_value, make_fault, shorten_text
from hotdesk.checks.xlsx.place import Area, parse_area
from hotdesk.checks.xlsx.requirements import NO_ERRORS, REMEDIES, SAVED_VALUES, describe_table
from hotdesk.checks.xlsx.table import Table, sum_numbers
from hotdesk.checks.xlsx.values import NOT_CALCULATED
from hotdesk.checks.xlsx.workbook import Cell, Sheet
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk

LOOK_TIMEOUT_S = 60.0
MOST_CELLS = 20_000
MOST_ADDED = 10_000_000
"""Maximum numbers that all sums read together, to limit the time."""
_SUM_SHAPE = re.compile(r"=SUM\(([^()]*)\)")
_DIFFERENCE_SHAPE = re.compile(r"=([^-]*)-([^-]*)")
FILL_SHAPE = re.compile(r"[0-9A-Fa-f]{8}", re.ASCII)
KEYS = ("columns", "rows", "red_where", "total")
EXAMPLE = 'expect = {columns = ["Invoice", "Difference"], rows = 5, red_where = "Difference", total = "Difference"}'
ALWAYS = ("opens", "columns", "rows", "shown", "errors", "calculated", "fresh")
SIMPLE = "Write =SUM over cells of one column, =B2-C2, or a plain value: this check cannot calculate other formulas."
NOT_CHECKED = (
    "sheets after the first",
    "other formulas: only sums of a column and differences of two cells were recalculated",
    "cells with a shared formula, whose saved values were used",
    "colours from a theme or a conditional format",
)


@dataclass(frozen=True, slots=True)
class SheetCheck:
    """Expectations of a workbook's first sheet: headings, rows below them, and possibly a total."""

    want: Expected

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> SheetCheck:
        if unknown := sorted(set(expect) - set(KEYS)):
            raise make_unknown_error("sheet", unknown[0], KEYS)
        columns, rows = expect.get("columns"), expect.get("rows")
        if not isinstance(columns, list) or not columns or not all(isinstance(each, str) for each in columns):
            raise ExpectationError(f"sheet: columns must be a list of headings; write {EXAMPLE}", ("columns",))
        if type(rows) is not int or not 0 <= rows <= MOST_CELLS:
            raise ExpectationError(
                f"sheet: rows must be a whole number from 0 to {MOST_CELLS}; write {EXAMPLE}", ("rows",)
            )
        for key in ("red_where", "total"):
            if expect.get(key, columns[0]) not in columns:
                raise ExpectationError(f"sheet: {key} {explain_column(expect[key], columns)}", (key,))
        red_where, total = str(expect.get("red_where", "")), str(expect.get("total", ""))
        return cls(Expected(columns=tuple(columns), rows=Span(rows, rows), red_where=red_where, total=total))

    @property
    def image(self) -> str:
        """The smallest image: its Python can read a workbook."""
        return "base"

    @property
    def alone(self) -> bool:
        return False

    @property
    def beside(self) -> tuple[str, ...]:
        return ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        return NOT_CHECKED

    @property
    def requirements(self) -> tuple[str, ...]:
        simple = (
            "A formula on the first sheet must be a sum of cells of one column, such as =SUM(D2:D6), or the difference "
            "of two cells, such as =B2-C2. Write everything else as plain values."
        )
        shown = "Neither the first sheet nor any of its rows and columns may be hidden."
        return (*describe_table(self.want), shown, simple, SAVED_VALUES, NO_ERRORS)

    async def gather(self, desk: Desk, path: str) -> Evidence:
        return await look(desk, "sheet_look", {"path": path}, seconds=LOOK_TIMEOUT_S)

    def judge(self, evidence: Evidence) -> Verdict:
        looked_for = (*ALWAYS, *(["colours"] if self.want.red_where else []), *(["total"] if self.want.total else []))
        try:
            sheet, tools = _read_evidence(evidence.report)
            faults, more = limit_faults(self.find_faults(sheet), REMEDIES)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(looked_for, "a workbook", e, REMEDIES["opens"])
        return Verdict(looked_for, faults, self.describe_facts(sheet), self.collect_values(sheet), tools, more=more)

    def find_faults(self, sheet: Sheet) -> Iterator[Fault]:
        """Find faults; those of the headings first and alone, since all others depend on them."""
        table = Table(self.want, sheet)
        if wrong := [*table.check_columns()]:
            return iter(wrong)
        return chain(
            table.find_hidden_parts(),
            table.count(),
            _find_formula_faults(sheet),
            table.check_red_rows(),
            table.check_total(),
        )

    def describe_facts(self, sheet: Sheet) -> tuple[str, ...]:
        facts = [
            f"{len(self.want.columns)} columns, {self.want.rows} rows",
            f"{format_count(_count_formulas(sheet), 'formula')}, recalculated",
        ]
        if self.want.red_where:
            facts.append(f"rows are red where {self.want.red_where} is not 0, and only there")
        return tuple(map(shorten_text, facts))

    def collect_values(self, sheet: Sheet) -> Mapping[str, Value]:
        return {
            "rows": Table(self.want, sheet).last - 1,
            "cells": len(sheet.cells),
            "formulas": _count_formulas(sheet),
        }


def _count_formulas(sheet: Sheet) -> int:
    return sum(1 for cell in sheet.cells.values() if cell.formula)


def _find_formula_faults(sheet: Sheet) -> Iterator[Fault]:
    """Find error values, formulas without a saved value or that cannot be recalculated, and wrong saved values."""
    calculation = Calculation(sheet)
    for at, cell in sheet.cells.items():
        if cell.kind == "e":
            yield make_fault("errors", sheet.name_cell(at), "a value", format_error(cell.value))
        elif cell.formula and not cell.kind:
            yield make_fault("calculated", sheet.name_cell(at), *NOT_CALCULATED)
        elif cell.formula:
            yield from _check_saved_value(sheet, at, calculation.calculate_formula(cell.formula))


def _check_saved_value(sheet: Sheet, at: tuple[int, int], now: float | None) -> Iterator[Fault]:
    cell = sheet.cells[at]
    if now is None:
        yield make_fault(
            "fresh",
            sheet.name_cell(at),
            "a sum of one column or a difference of two cells",
            sheet.quote_formula(at),
            SIMPLE,
        )
    elif cell.number is None or not abs(cell.number - now) < CENT:
        expected = f"the saved value {format_value(now)}, the result of {sheet.quote_formula(at)}"
        yield make_fault("fresh", sheet.name_cell(at), expected, format_value(cell.value))


class Calculation:
    """Recalculates the simple formulas of a sheet."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.remaining = MOST_ADDED
        self.columns: dict[int, tuple[list[int], list[float]]] = {}
        """The rows and values of the numbers in each column."""
        for (row, column), cell in sheet.cells.items():
            if cell.number is not None:
                rows, numbers = self.columns.setdefault(column, ([], []))
                rows.append(row)
                numbers.append(cell.number)

    def calculate_formula(self, formula: str) -> float | None:
        """Return the result of a sum or a difference; `None` for any other formula."""
        if added := _parse_sum(formula):
            return self.sum_area(added)
        found = _DIFFERENCE_SHAPE.fullmatch(formula)
        sides = [self.read_number(found[side]) for side in (1, 2)] if found else []
        match sides:
            case [float(first), float(second)]:
                return first - second
            case _:
                return None

    def sum_area(self, where: Area) -> float:
        """Return the sum of a part of a column; raise `ValueError` if the sums read too many cells in total."""
        rows, numbers = self.columns.get(where.left, ([], []))
        part = numbers[bisect_left(rows, where.top) : bisect_right(rows, where.bottom)]
        self.remaining -= len(part)
        if self.remaining < 0:
            raise ValueError(f"the sums of the sheet read more than {MOST_ADDED} cells, the most that can be checked")
        return sum_numbers(part)

    def read_number(self, text: str) -> float | None:
        where = _parse_local_area(text)
        cell = self.sheet.cells.get((where.top, where.left)) if where and where.size == 1 else None
        return cell.number if cell else None


def _parse_sum(formula: str) -> Area | None:
    """Return the part of a column that a formula sums, if it does nothing else."""
    found = _SUM_SHAPE.fullmatch(formula)
    added = _parse_local_area(found[1]) if found else None
    return added if added and added.left == added.right else None


def _parse_local_area(text: str) -> Area | None:
    try:
        found = parse_area(text)
    except ValueError:
        return None
    return found if not found.sheet else None


def _read_evidence(evidence: bytes) -> tuple[Sheet, Mapping[str, str]]:
    """Parse a desk's report on the first sheet; raise `ValueError` if it is malformed."""
    match read_json(evidence):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be opened as a workbook: {why}")
        case {
            "sheets": [{"name": name, "cells": list(cells), "hidden": bool(hidden), **more}, *_],
            "tools": {"Python": python},
        } if 0 < len(cells) <= MOST_CELLS:
            rows, columns = (int(read_number(more.get(key))) for key in ("hidden_rows", "hidden_columns"))
            found = {(cell.row, cell.column): cell for cell in map(read_cell, cells)}
        case {"sheets": [{"cells": list(cells)}, *_]} if len(cells) > MOST_CELLS:
            raise ValueError(f"the first sheet has more than {MOST_CELLS} cells, the most that can be checked")
        case _:
            raise ValueError("the workbook has no sheet, or its first sheet is empty")
    if len(found) != len(cells) or not any(row == 1 for row, _ in found):
        raise ValueError("the first sheet has nothing in row 1, or two cells at the same position")
    sheet = Sheet(read_text(name), hidden, dict(sorted(found.items())), rows, {}, columns)
    return sheet, {"Python": read_text(python)}


def read_cell(record: object) -> Cell:
    match record:
        case {
            "at": str(at),
            "value": (str() | float() | None) as value,
            "formula": str(formula),
            "fill": str(fill),
            "error": bool(error),
        } if max(len(at), len(formula), len(fill), len(value) if isinstance(value, str) else 0) <= MAX_TEXT_CHARS:
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a cell has an invalid number")
            where = _parse_local_area(at)
            if where is None or where.size != 1:
                raise ValueError("the reference of a cell is missing or invalid; it must be like B2")
            text = "=" + formula.removeprefix("=") if formula else ""
            colour = fill[2:].upper() if FILL_SHAPE.fullmatch(fill) else ""
            return Cell(where.left, where.top, get_kind(value, error=error), value, text, colour)
    raise MalformedReportError("invalid cell")


def get_kind(value: str | float | None, *, error: bool) -> str:
    if error:
        return "e"
    return "n" if isinstance(value, float) else "t" if value is not None else ""
