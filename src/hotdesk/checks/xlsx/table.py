"""Expectations of one sheet: columns, rows, colours, and the total below them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.colour import is_colour
from hotdesk.checks.xlsx.expect import CENT, Coloured, Expected
from hotdesk.checks.xlsx.faults import format_value, list_names, make_fault
from hotdesk.checks.xlsx.place import format_column
from hotdesk.checks.xlsx.requirements import FILL, NO_FILL, REMEDIES
from hotdesk.checks.xlsx.workbook import Cell, Sheet
from hotdesk.dataclass import dataclass

_MOST_ROWS = 200_000


@dataclass(frozen=True)
class Table:
    """A sheet with headings in its first row, rows below them, and possibly a total."""

    want: Expected
    sheet: Sheet

    @cached_property
    def heads(self) -> Mapping[str, int]:
        """Column of each heading; the first, if two columns have the same."""
        first = [cell for (row, _), cell in self.sheet.cells.items() if row == 1]
        return {str(cell.shown): cell.column for cell in reversed(first)}

    @cached_property
    def last(self) -> int:
        return max((row for row, _ in self.sheet.cells), default=1) - bool(self.want.total)

    @cached_property
    def rows(self) -> Mapping[int, list[Cell]]:
        if self.last > _MOST_ROWS:
            raise ValueError(f"a sheet has more than {_MOST_ROWS} rows, the most that can be examined")
        found: dict[int, list[Cell]] = {row: [] for row in range(2, self.last + 1)}
        columns = set(self.heads.values())
        for (row, column), cell in self.sheet.cells.items():
            if row in found and column in columns:
                found[row].append(cell)
        return found

    def check_columns(self) -> Iterator[Fault]:
        heads = [str(cell.shown) for (row, _), cell in self.sheet.cells.items() if row == 1]
        if self.want.columns and heads != list(self.want.columns):
            expected = f"the headings {', '.join(self.want.columns)}"
            yield make_fault("columns", f"{self.sheet.name}!1:1", expected, list_names(heads))

    def find_hidden_parts(self) -> Iterator[Fault]:
        if not self.want.of_a_table:
            return
        hidden = {"sheet": self.sheet.hidden, "rows": self.sheet.hidden_rows, "columns": self.sheet.hidden_columns}
        for what, number in hidden.items():
            if number:
                found = "a hidden sheet" if what == "sheet" else f"{number} hidden"
                yield make_fault("shown", self.sheet.name, f"no hidden {what}", found)

    def count(self) -> Iterator[Fault]:
        found, want = max(self.last - 1, 0), self.want.rows
        if want is None:
            return
        if found not in want:
            yield make_fault("rows", self.sheet.name, f"{want} rows", f"{found} rows")
        first = min(self.heads.values(), default=1)
        for row in self.rows:
            if (row, first) not in self.sheet.cells:
                where = f"{self.sheet.name}!{format_column(first)}{row}"
                yield make_fault("rows", where, "a value in the first cell of every row", "an empty cell")

    def check_red_rows(self) -> Iterator[Fault]:
        column = self.heads.get(self.want.red_where)
        if not self.want.red_where:
            return
        if column is None:
            yield self.make_missing_column_fault("colours", self.want.red_where)
            return
        for row, cells in self.rows.items():
            cell = self.sheet.cells.get((row, column))
            value = cell.number if cell else None
            if value is None:
                found = format_value(cell.shown) if cell else "nothing"
                where, expected = self.sheet.name_cell((row, column)), f"a number in column {self.want.red_where}"
                yield make_fault("colours", where, expected, found, "Write a number into every row of this column.")
            else:
                yield from self.check_row_colour(
                    row, cells, "red", abs(value) > CENT, f"{self.want.red_where} is {value:.12g}"
                )

    def check_colours(self) -> Iterator[Fault]:
        want = self.want.coloured
        if want is None:
            return
        if want.column and want.column not in self.heads:
            yield self.make_missing_column_fault("colours", want.column)
            return
        expected = self.find_expected_rows(want)
        for row in sorted(want.rows - set(self.rows)):
            yield make_fault("colours", f"{self.sheet.name}!{row}:{row}", f"a {want.colour} row", "no such row", FILL)
        missing = want.values - {str(self.get_cell_text(row, want.column)) for row in expected}
        for value in sorted(missing):
            text = f"a row whose {want.column} is {value}"
            yield make_fault(
                "colours", self.sheet.name, text, "no such row", "Add the row, and fill it with the expected colour."
            )
        for row, cells in self.rows.items():
            yield from self.check_row_colour(row, cells, want.colour, row in expected, "")

    def find_expected_rows(self, want: Coloured) -> set[int]:
        if not want.column:
            return set(want.rows)
        return {row for row in self.rows if self.get_cell_text(row, want.column) in want.values}

    def get_cell_text(self, row: int, column: str) -> str:
        cell = self.sheet.cells.get((row, self.heads[column])) if column else None
        shown = cell.shown if cell else None
        return f"{shown:g}" if isinstance(shown, float) else str(shown or "")

    def check_row_colour(self, row: int, cells: list[Cell], colour: str, expected: bool, why: str) -> Iterator[Fault]:
        """Check that all cells of a row have a colour, or none."""
        has = [is_colour(cell.fill, colour) for cell in cells]
        where = f"{self.sheet.name}!{row}:{row}"
        if expected and not (has and all(has)):
            text = f"a {colour} row{f', because {why}' if why else ''}"
            yield make_fault("colours", where, text, f"{sum(has)} of {len(has)} cells {colour}", FILL)
        elif not expected and any(has):
            text = f"a row that is not {colour}{f', because {why}' if why else ''}"
            yield make_fault("colours", where, text, f"{sum(has)} of {len(has)} cells {colour}", NO_FILL)

    def check_total(self) -> Iterator[Fault]:
        """Check the total: a formula below the rows that reads them all and results in their sum."""
        column = self.heads.get(self.want.total)
        if not self.want.total:
            return
        if column is None:
            yield self.make_missing_column_fault("total", self.want.total)
            return
        at = (self.last + 1, column)
        value = self.sum_column(column)
        if not self.reads_all(at) or not self.shows(at, value):
            cell = self.sheet.cells.get(at)
            found = "nothing"
            if cell:
                how = f"by {self.sheet.quote_formula(at)}" if cell.formula else "without a formula"
                found = f"{format_value(cell.shown)} {how}"
            expected = f"a formula that reads all rows of {self.want.total} and gives {value:.12g}"
            yield make_fault("total", self.sheet.name_cell(at), expected, found)

    def sum_column(self, column: int) -> float:
        cells = (self.sheet.cells.get((row, column)) for row in self.rows)
        return sum_numbers(cell.number for cell in cells if cell and cell.number is not None)

    def reads_all(self, at: tuple[int, int]) -> bool:
        form, (row, column) = self.sheet.formulas.get(at), at
        if form is None:
            return False
        read = [area for area in form.iterate_areas(self.sheet.name, column, row) if area.left <= column <= area.right]
        next_row = 2
        for area in sorted(read, key=lambda area: area.top):
            if area.top > next_row or area.bottom >= row:
                return False
            next_row = max(next_row, area.bottom + 1)
        return next_row == row

    def shows(self, at: tuple[int, int], value: float) -> bool:
        cell = self.sheet.cells.get(at)
        return cell is not None and cell.number is not None and abs(cell.number - value) <= CENT

    def make_missing_column_fault(self, rule: str, head: str) -> Fault:
        return make_fault(
            rule, f"{self.sheet.name}!1:1", f"a heading {head}", list_names(self.heads), REMEDIES["columns"]
        )

    def find_missing_formulas(self, head: str) -> Iterator[Fault]:
        if head not in self.heads:
            yield self.make_missing_column_fault("formulas", head)
            return
        for row in self.rows:
            at = (row, self.heads[head])
            cell = self.sheet.cells.get(at)
            if cell is None or not cell.formula:
                found = format_value(cell.shown) if cell else "nothing"
                yield make_fault(
                    "formulas", self.sheet.name_cell(at), f"a formula in every row of column {head}", found
                )


def sum_numbers(numbers: Iterable[float]) -> float:
    """Return the sum of numbers; on overflow infinity, which no cell can show."""
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf
