"""Parses a desk's report about a workbook strictly, because all of it may be forged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import NamedTuple

from hotdesk.checks.evidence import MAX_TEXT_CHARS, read_json, read_number
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.xlsx.formula import Formula, parse
from hotdesk.checks.xlsx.place import LAST_COLUMN, LAST_ROW, Area, format_column, parse_area
from hotdesk.dataclass import dataclass

MOST_SHEETS = 50
MOST_CELLS = 200_000
_MOST_NAMED = 1000
MOST_OUTPUTS = 1000
LONGEST_FORMULA = 8192
MAX_FORMULA_CHARS = 70
"""Maximum characters quoted from a formula."""
_MOST_FORMULAS = 4 << 20
"""Maximum characters of all formulas together; a shared formula counts once."""
_MOST_READ = 400_000
"""Maximum references of all formulas together; a shared formula counts for each of its cells."""
FILL_SHAPE = re.compile(r"[0-9A-F]{6}", re.ASCII)
COUNTS = ("charts", "pivots", "validations", "formats")
Shown = str | float | None


class Cell(NamedTuple):
    """One cell that is not empty."""

    column: int
    row: int
    kind: str
    """Kind of the saved value: `n` number, `t` text, `b` boolean, `e` error, or `""` for none."""
    value: Shown
    formula: str
    fill: str
    """Fill colour as `RRGGBB`, or `""`."""
    fresh_kind: str = ""
    """Kind of the recalculated value."""
    fresh: Shown = None

    @property
    def shown(self) -> Shown:
        return self.fresh if self.fresh_kind else self.value

    @property
    def number(self) -> float | None:
        kind = self.fresh_kind or self.kind
        return self.shown if kind == "n" and isinstance(self.shown, float) else None


@dataclass(frozen=True)
class Sheet:
    name: str
    hidden: bool
    cells: Mapping[tuple[int, int], Cell]
    """Cells by row and column, in that order."""
    hidden_rows: int
    counts: Mapping[str, int]
    """Numbers of charts, pivot tables, validations and conditional formats."""
    hidden_columns: int = 0

    @cached_property
    def formulas(self) -> Mapping[tuple[int, int], Formula]:
        """Parsed formulas by cell; cells with a shared formula have the same object."""
        found: dict[tuple[int, int], Formula] = {}
        for at, cell in self.cells.items():
            if cell.formula and cell.formula[0] not in "@{":
                found[at] = parse(cell.formula, cell.column, cell.row)
        for at, cell in self.cells.items():
            if cell.formula[:1] == "@" and (of := self.parse_place(cell.formula[1:])) in found:
                found[at] = found[of]
        return found

    def parse_place(self, text: str) -> tuple[int, int]:
        found = parse_area(text)
        return found.top, found.left

    def quote_formula(self, at: tuple[int, int]) -> str:
        text = self.cells[at].formula if at in self.cells else ""
        if text[:1] == "@":
            return f"the formula of {text[1:]}, copied to this cell"
        if text[:1] == "{":
            return f"part of the array formula {text[1:-1]}"
        shown = text.removeprefix("=").replace("`", "'")
        return f"`={shown if len(shown) <= MAX_FORMULA_CHARS else shown[: MAX_FORMULA_CHARS - 1] + '…'}`"

    def name_cell(self, at: tuple[int, int]) -> str:
        return f"{self.name}!{format_column(at[1])}{at[0]}"


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a column of a source."""

    value: float = 0.0
    count: int = 0
    why: str = ""
    """Reason why there is no sum, or `""`."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """The outputs before and after an input was changed."""

    before: Sequence[Shown] = ()
    after: Sequence[Shown] = ()
    input_kind: str = ""
    """Kind of the input before: `VALUE`, `TEXT`, `FORMULA` or `EMPTY`."""
    was: str = ""
    why: str = ""
    """Reason why the input was not changed, or `""`."""


@dataclass(frozen=True, slots=True)
class Like:
    """Facts about the workbook to compare with."""

    sheets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    names: Sequence[str] = ()
    why: str = ""
    """Reason why nothing is known of it, or `""`."""


@dataclass(frozen=True)
class Workbook:
    """A workbook as reported by a desk."""

    sheets: Sequence[Sheet]
    names: Mapping[str, str]
    tables: Mapping[str, Area]
    broken: Sequence[str]
    """Charts that refer to deleted cells."""
    sums: Sequence[Sum]
    mutations: Sequence[Mutation]
    like: Like | None
    tools: Mapping[str, str]

    def find_sheet(self, name: str) -> Sheet | None:
        """Find a sheet by its name, regardless of case."""
        return next((each for each in self.sheets if each.name.casefold() == name.casefold()), None)

    def find_cell(self, where: Area) -> Cell | None:
        sheet = self.find_sheet(where.sheet)
        return sheet.cells.get((where.top, where.left)) if sheet else None

    @cached_property
    def calls(self) -> frozenset[str]:
        found = (each.calls for sheet in self.sheets for each in set(sheet.formulas.values()))
        return frozenset[str]().union(*found)


def read_book(data: bytes) -> Workbook:
    """Parse a desk's report; raise `ValueError` if it is malformed or the file could not be opened."""
    match read_json(data):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be opened as a workbook: {why[:MAX_TEXT_CHARS]}")
        case {
            "sheets": list(sheets),
            "names": list(names),
            "tables": list(tables),
            "broken": list(broken),
            "sums": list(sums),
            "mutations": list(mutations),
            "like": (dict() | None) as like,
            "tools": {"LibreOffice": str(office), "Python": str(python)},
        } if 0 < len(sheets) <= MOST_SHEETS and max(map(len, (names, tables, broken, sums, mutations))) <= _MOST_NAMED:
            return Workbook(
                _read_sheets(sheets),
                dict(pair(each) for each in names),
                dict(read_table(each) for each in tables),
                [_read_short_text(each) for each in broken],
                [_read_sum(each) for each in sums],
                [_read_mutation(each) for each in mutations],
                _read_like(like) if like is not None else None,
                {"LibreOffice": _read_short_text(office), "Python": _read_short_text(python)},
            )
        case {"sheets": list(sheets)} if not 0 < len(sheets) <= MOST_SHEETS:
            raise ValueError(f"the workbook has {len(sheets)} sheets; from 1 to {MOST_SHEETS} can be checked")
    raise MalformedReportError("a field is missing, or has too many entries")


def _read_sheets(records: list[object]) -> list[Sheet]:
    """Parse sheets; they must have different names and together a limited number of cells and formulas."""
    sheets, remaining = list[Sheet](), MOST_CELLS
    for each in records:
        sheet = _read_sheet(each, remaining)
        remaining -= len(sheet.cells)
        sheets.append(sheet)
    if len({sheet.name.casefold() for sheet in sheets}) != len(sheets):
        raise ValueError("two sheets have the same name")
    if sum(len(cell.formula) for sheet in sheets for cell in sheet.cells.values()) > _MOST_FORMULAS:
        raise ValueError(
            f"the formulas have more than {_MOST_FORMULAS} characters in total, the most that can be checked"
        )
    if sum(len(form.reads) for sheet in sheets for form in sheet.formulas.values()) > _MOST_READ:
        raise ValueError(f"the formulas have more than {_MOST_READ} references in total, the most that can be checked")
    return sheets


def _read_sheet(record: object, most: int) -> Sheet:
    match record:
        case {"name": str(name), "hidden": bool(hidden), "cells": list(cells), "hidden_rows": rows, **more} if (
            len(cells) <= most
        ):
            found = {(cell.row, cell.column): cell for cell in map(read_cell, cells)}
            if len(found) != len(cells):
                raise ValueError("a cell is stored twice")
            columns = count(more.get("hidden_columns", 0))
            return Sheet(
                _read_short_text(name),
                hidden,
                dict(sorted(found.items())),
                count(rows),
                _read_sheet_counts(record),
                columns,
            )
    raise MalformedReportError("a sheet is invalid or too large")


def read_cell(record: object) -> Cell:
    match record:
        case [int(column), int(row), str(kind), value, str(formula), str(fill), *fresh] if (
            0 < column <= LAST_COLUMN and 0 < row <= LAST_ROW and len(formula) <= LONGEST_FORMULA
        ):
            if fill and not FILL_SHAPE.fullmatch(fill):
                raise MalformedReportError("invalid colour")
            if formula[:1] in ("@", "{"):
                parse_area(formula.strip("@{}"))
            if bool(fresh) != bool(formula):
                raise MalformedReportError("a formula has no result, or a value has one")
            now = read_value(*fresh) if len(fresh) == 2 else ("", None)
            if fresh and not now[0]:
                raise MalformedReportError("a formula has no result")
            return Cell(column, row, *read_value(kind, value), formula, fill, *now)
    raise MalformedReportError("invalid cell")


def read_value(kind: object, value: object) -> tuple[str, Shown]:
    match kind, value:
        case "", None:
            return "", None
        case "n" | "b", _:
            return "n" if kind == "n" else "b", read_number(value)
        case "t" | "e", str():
            return "t" if kind == "t" else "e", _read_short_text(value)
    raise MalformedReportError("impossible cell value")


def _read_sum(record: object) -> Sum:
    match record:
        case {"why": str(why)}:
            return Sum(why=_read_short_text(why))
        case {"sum": value, "count": number}:
            return Sum(read_number(value), count(number))
    raise MalformedReportError("invalid sum")


def _read_mutation(record: object) -> Mutation:
    match record:
        case {"why": str(why)}:
            return Mutation(why=_read_short_text(why))
        case {"before": list(before), "after": list(after), "held": str(kind), "was": str(was)} if (
            len(before) == len(after) <= MOST_OUTPUTS
        ):
            return Mutation(
                [read_output(each) for each in before],
                [read_output(each) for each in after],
                _read_short_text(kind),
                _read_short_text(was),
            )
    raise MalformedReportError("invalid result of a changed input")


def read_output(value: object) -> Shown:
    if value is None or isinstance(value, str):
        return None if value is None else _read_short_text(value)
    return read_number(value)


def _read_like(record: Mapping[object, object]) -> Like:
    match record:
        case {"why": str(why)}:
            return Like(why=_read_short_text(why))
        case {"sheets": list(sheets), "names": list(names)} if max(len(sheets), len(names)) <= _MOST_NAMED:
            return Like(dict(_read_counts(each) for each in sheets), [_read_short_text(each) for each in names])
    raise MalformedReportError("invalid description of the input workbook")


def _read_counts(record: object) -> tuple[str, Mapping[str, int]]:
    match record:
        case {"name": str(name), "formulas": formulas}:
            return _read_short_text(name), {**_read_sheet_counts(record), "formulas": count(formulas)}
    raise MalformedReportError("invalid sheet of the input workbook")


def _read_sheet_counts(record: object) -> dict[str, int]:
    return {name: count(record.get(name) if isinstance(record, dict) else None) for name in COUNTS}


def read_table(record: object) -> tuple[str, Area]:
    match record:
        case [str(name), str(sheet), str(where)]:
            found = parse_area(where)
            return _read_short_text(name).upper(), Area(
                _read_short_text(sheet), found.left, found.top, found.right, found.bottom
            )
    raise MalformedReportError("invalid table")


def pair(record: object) -> tuple[str, str]:
    match record:
        case [str(name), str(stands)]:
            return _read_short_text(name), _read_short_text(stands)
    raise MalformedReportError("invalid name")


def _read_short_text(value: object) -> str:
    """Return a text unchanged if it is short; it is escaped where it is shown."""
    if not isinstance(value, str) or len(value) > MAX_TEXT_CHARS:
        raise MalformedReportError("expected a short text")
    return value


def count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= LAST_ROW:
        raise MalformedReportError("expected a count")
    return value
