"""The check of a CSV table: uniform width, columns, rows, numbers and sums."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from itertools import chain
from typing import Annotated, ClassVar

from hotdesk.brief.brief import locate_input
from hotdesk.brief.faults import ExpectationError
from hotdesk.checks.batch import LookRequest
from hotdesk.checks.evidence import limit_faults, look, make_unreadable_verdict, read_json
from hotdesk.checks.expectations import MOST_WORDS, Count, Place, Texts, explain_column, read_expectations
from hotdesk.checks.inside.active_text import normalize_first_char, strip_invisible
from hotdesk.checks.malformed import MalformedReportError
from hotdesk.checks.seam import Evidence, Fault, Value, Verdict
from hotdesk.checks.sentences import list_exactly, list_words, show, show_count
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk
from hotdesk.errors import make_printable
from hotdesk.strict import Length

EXAMPLE = '{columns = ["Order", "Amount"], rows = {min = 1}, numeric = ["Amount"], unique = ["Order"]}'
LOOKED_FOR = ("opens", "width", "columns", "rows", "numeric", "unique", "sums", "formulas")
REMEDIES: Mapping[str, str] = {
    "opens": "Write a table in UTF-8 with a row of headings.",
    "width": "Give every row as many cells as there are headings; quote a cell that contains the delimiter.",
    "columns": "Write exactly these headings into the first line, in this order, each once.",
    "rows": "Write the required number of rows below the headings, one line each, and no other lines.",
    "numeric": "Write a plain number: a point for decimals, no thousands separator, no unit.",
    "unique": "Remove the row with the repeated value, or correct the value.",
    "sums": "Correct the values of the column until their sum is the expected one.",
    "formulas": "Change the cell so that a spreadsheet treats it as text, or write its value.",
}
MOST_CELLS = 1_000_000
SHOWN = 80
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_CALCULATED = ("=", "+", "-", "@")
CENT = Decimal("0.005")


@dataclass(frozen=True, slots=True)
class CsvCheck:
    """Expectations of a table whose first row has the column names."""

    image: ClassVar[str] = "base"
    alone: ClassVar[bool] = False
    columns: Texts = ()
    rows: Count = None
    numeric: Texts = ()
    unique: Texts = ()
    delimiter: Annotated[str, Length(1, 1)] = ","
    source: Place = ""
    """Another table, beside the brief or in the drive."""
    sums: Annotated[Mapping[str, float | str], Length(MOST_WORDS)] = field(default_factory=dict)
    """Expected sum of each column: a number, or a column of the source with the same sum."""
    formulas: bool = False
    """Whether cells may contain text that a spreadsheet would calculate."""

    @classmethod
    def from_expect(cls, expect: Mapping[str, object]) -> CsvCheck:
        check = read_expectations(cls, "csv", expect, EXAMPLE)
        if not check.source and any(isinstance(each, str) for each in check.sums.values()):
            why = f"csv: sums must be numbers unless source names another table; write expect = {EXAMPLE}"
            raise ExpectationError(why, ("sums",))
        for key, names in (("numeric", check.numeric), ("unique", check.unique), ("sums", tuple(check.sums))):
            for name in names:
                if check.columns and name not in check.columns:
                    raise ExpectationError(f"csv: {key} {explain_column(name, check.columns)}", (key,))
        return check

    @property
    def beside(self) -> tuple[str, ...]:
        return (self.source,) if self.source else ()

    @property
    def not_checked(self) -> tuple[str, ...]:
        return ("the content of the cells, beyond the stated requirements",)

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(self.list_requirements())

    def list_requirements(self) -> Iterator[str]:
        between = "commas" if self.delimiter == "," else "tabs" if self.delimiter == "\t" else f"{self.delimiter!r}"
        yield f"It must be a table in UTF-8 with {between} between cells and a first line of unique headings."
        if self.columns:
            yield f"The headings must be exactly these, in this order: {list_exactly(self.columns)}."
        if self.rows is not None:
            yield f"Below the headings there must be {show_count(self.rows, 'row')}."
        yield "Every line must have as many cells as there are headings."
        if self.numeric:
            yield (
                f"Every cell of {list_words(self.numeric)} must be a plain number: a point for decimals, no thousands "
                "separator, no unit, never empty."
            )
        for name in self.unique:
            yield f"Every value in column {show(name)} must be unique."
        for name, goal in self.sums.items():
            text = f"the same as {show(goal)} of {show(self.source)}" if isinstance(goal, str) else f"{goal:.12g}"
            yield f"Column {show(name)} must add up to {text}."
        if not self.formulas:
            yield "No cell may start with =, +, - or @, unless it is a number: a spreadsheet would calculate it."

    def ask_look(self, path: str, beside: str) -> LookRequest:
        source = f"{beside}/{locate_input(self.source)}" if self.source else ""
        return LookRequest("csv_look", {"path": path, "source": source, "delimiter": self.delimiter})

    async def gather(self, desk: Desk, path: str) -> Evidence:
        source = f"beside/{locate_input(self.source)}" if self.source else ""
        return await look(desk, "csv_look", {"path": path, "source": source, "delimiter": self.delimiter})

    def judge(self, evidence: Evidence) -> Verdict:
        try:
            table, source = _read_tables(evidence.report)
        except (ValueError, RecursionError) as e:
            return make_unreadable_verdict(LOOKED_FOR, "a table in UTF-8", e, REMEDIES["opens"])
        faults, more = limit_faults(self.check_shape(table), REMEDIES)
        if not faults:
            rules = chain(self.check_rows(table), self.check_cells(table), self.find_wrong_sums(table, source))
            faults, more = limit_faults(rules, REMEDIES)
        values: dict[str, Value] = {"rows": len(table) - 1, "columns": _format_cells(table[0])}
        for name in self.sums:
            values[f"sum of {make_printable(name[:80])}"] = str(sum_column(table, name))
        facts = (f"{len(table[0])} columns, {len(table) - 1} rows", *(f"{name} adds up" for name in self.sums))
        return Verdict(LOOKED_FOR, faults, tuple(map(make_printable, facts)), values, more=more)

    def check_shape(self, table: Sequence[Sequence[str]]) -> Iterator[Fault]:
        head = table[0]
        if self.columns and tuple(head) != self.columns:
            yield Fault("columns", "line 1", f"the headings {_format_cells(self.columns)}", _quote_cells(head))
        if len(set(head)) != len(head):
            yield Fault("columns", "line 1", "unique headings", _quote_cells(head))
        for number, row in enumerate(table, 1):
            if len(row) != len(head):
                yield Fault("width", f"line {number}", f"{len(head)} cells", f"{len(row)} cells")
        for name in (*self.numeric, *self.unique, *self.sums):
            if name not in head:
                yield Fault("columns", "line 1", f"a heading {_format_cells([name])}", _quote_cells(head))

    def check_rows(self, table: Sequence[Sequence[str]]) -> Iterator[Fault]:
        """Find a wrong number of rows, and repeated values of unique columns."""
        if self.rows is not None and len(table) - 1 not in self.rows:
            yield Fault("rows", "", f"{self.rows} rows", str(len(table) - 1))
        for name in self.unique:
            first: dict[str, int] = {}
            for number, cell in _iterate_column(table, name):
                if cell in first:
                    yield Fault(
                        "unique",
                        f"line {number}, {_format_cells([name])}",
                        "unique values",
                        f"{_quote_cells([cell])}, which is also in line {first[cell]}",
                    )
                first.setdefault(cell, number)

    def check_cells(self, table: Sequence[Sequence[str]]) -> Iterator[Fault]:
        """Find cells that are not numbers where they must be, and cells that a spreadsheet would calculate."""
        for name in self.numeric:
            for number, cell in _iterate_column(table, name):
                if not NUMBER.fullmatch(cell.strip()):
                    yield Fault(
                        "numeric",
                        f"line {number}, {_format_cells([name])}",
                        "a number",
                        _quote_cells([cell]) if cell else "nothing",
                    )
        if not self.formulas:
            for number, row in enumerate(table, 1):
                for cell in row:
                    bare = strip_invisible(cell)
                    begins = normalize_first_char(bare) in _CALCULATED and len(bare) > 1
                    if begins and not NUMBER.fullmatch(cell.strip()):
                        expected = "no cell that a spreadsheet would calculate"
                        yield Fault("formulas", f"line {number}", expected, _quote_cells([cell]))

    def find_wrong_sums(self, table: Sequence[Sequence[str]], source: Sequence[Sequence[str]]) -> Iterator[Fault]:
        for name, expected in self.sums.items():
            if isinstance(expected, str) and (not source or expected not in source[0]):
                yield Fault(
                    "sums",
                    _format_cells([name]),
                    f"a source with a column {_format_cells([expected])}",
                    "no such column",
                )
                continue
            goal = sum_column(source, expected) if isinstance(expected, str) else Decimal(str(expected))
            there = sum_column(table, name)
            if there is None or goal is None or abs(there - goal) >= CENT:
                found = f"{there}" if there is not None else "cells that are not numbers"
                expected = f"a sum of {goal}" if goal is not None else "a source whose cells are numbers"
                yield Fault("sums", _format_cells([name]), expected, found)


def _iterate_column(table: Sequence[Sequence[str]], name: str) -> Iterator[tuple[int, str]]:
    at = table[0].index(name)
    for number, row in enumerate(table[1:], 2):
        yield number, row[at] if at < len(row) else ""


def sum_column(table: Sequence[Sequence[str]], name: str) -> Decimal | None:
    """Return a column's sum, or `None` if it is missing or has a cell that is not a number."""
    if name not in table[0]:
        return None
    cells = [cell.strip() for _, cell in _iterate_column(table, name) if cell.strip()]
    return sum(map(Decimal, cells), Decimal()) if all(map(NUMBER.fullmatch, cells)) else None


def _read_tables(report: bytes) -> tuple[list[list[str]], list[list[str]]]:
    """Parse the desk's report strictly; return the table and its source."""
    match read_json(report):
        case {"unreadable": str(why)}:
            raise ValueError(f"the file cannot be read as a table: {make_printable(why[:200])}")
        case {"rows": rows, "source": source}:
            return read_table(rows), read_table(source) if source else []
        case _:
            raise MalformedReportError


def read_table(value: object) -> list[list[str]]:
    if not isinstance(value, list) or not value:
        raise ValueError("the table has no rows")
    count = 0
    for row in value:
        if not isinstance(row, list) or not all(isinstance(cell, str) for cell in row):
            raise MalformedReportError("invalid rows")
        count += len(row)
    if count > MOST_CELLS:
        raise ValueError(f"the table has more than {MOST_CELLS} cells, the most that can be checked")
    return value


def _format_cells(cells: Sequence[str]) -> str:
    return make_printable(", ".join(cells)[:400] if len(cells) != 1 else cells[0][:SHOWN])


def _quote_cells(cells: Sequence[str]) -> str:
    return make_printable(", ".join(repr(cell[:SHOWN]) for cell in cells)[:400])
