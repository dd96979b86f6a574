"""Reads a brief's expectations about a workbook; every error has an example."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from hotdesk.brief.faults import ExpectationError, make_unknown_error
from hotdesk.checks.count_range import Span, read_span
from hotdesk.checks.expectations import explain_column
from hotdesk.checks.xlsx.colour import COLOURS
from hotdesk.checks.xlsx.place import Area, parse_area
from hotdesk.dataclass import dataclass
from hotdesk.strict import By, Length, Otherwise, StrictError, compile_reader, read

MAX_ITEMS = 100
"""Maximum entries of a list."""
MOST_OUTPUTS = 500
"""Maximum output cells of one mutation."""
CENT = 0.005
EXAMPLES = {
    "sheet": '"Data"',
    "sheets": '["Summary", "Data"]',
    "columns": '["Invoice", "Difference"]',
    "rows": "5, or {min = 1, max = 9}",
    "red_where": '"Difference"',
    "coloured": '{colour = "red", rows = [3, 7]}, or {colour = "red", column = "Invoice", is = ["I-3"]}',
    "total": '"Difference"',
    "formulas": '["Summary!B2:B5", "column Difference"]',
    "reconcile": '[{cell = "Summary!B9", with = "Data!F9"}, {cell = "Summary!B9", source = "a.csv", column = "Sum"}]',
    "mutate": '[{set = "Assumptions!B2", to = 1.5, moves = ["Summary!B9"], stays = ["Summary!B2"]}]',
    "assumptions": '["Assumptions!B2:B9"]',
    "like": '"model.xlsx"',
}
SOME = Length(MAX_ITEMS, 1, f"expected a list of 1 to {MAX_ITEMS} entries")
Name: TypeAlias = Annotated[str, Length(500, 1), Otherwise("expected a text of 1 to 500 characters")]
Names: TypeAlias = Annotated[tuple[Name, ...], SOME]
text: Callable[[object], str] = compile_reader(Name)
texts: Callable[[object], tuple[str, ...]] = compile_reader(Names)


@dataclass(frozen=True, slots=True)
class Coloured:
    """The rows that must have a colour; no others may."""

    colour: str
    rows: frozenset[int] = frozenset()
    column: str = ""
    values: frozenset[str] = frozenset()
    """Values in `column` of the rows that must have the colour."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """A number that must equal another one."""

    cell: Area
    other: Area | None = None
    source: str = ""
    """A file beside the workbook."""
    column: str = ""
    """Column of the source that is summed."""
    within: float = CENT


@dataclass(frozen=True, slots=True)
class Mutate:
    """An input to change, the outputs that must then change, and those that must not."""

    cell: Area
    to: str | float
    moves: tuple[Area, ...]
    stays: tuple[Area, ...] = ()

    @property
    def outputs(self) -> tuple[Area, ...]:
        return tuple(
            Area(each.sheet, c, r, c, r) for each in (*self.moves, *self.stays) for r, c in each.iterate_cells()
        )

    @property
    def moving(self) -> int:
        """Number of outputs that must change; they come first."""
        return sum(each.size for each in self.moves)


def _parse_sheet_area(value: object) -> Area:
    found = parse_area(text(value))
    if not found.sheet:
        raise ValueError("the cell range must name its sheet, as in Summary!B2:B5")
    if found.size > MOST_OUTPUTS:
        raise ValueError(f"the cell range has more than {MOST_OUTPUTS} cells")
    return found


_Areas: TypeAlias = Annotated[tuple[Annotated[Area, By(_parse_sheet_area)], ...], SOME]


@dataclass(frozen=True, slots=True)
class Expected:
    """All expectations of a brief."""

    sheet: Name = ""
    """The sheet to which columns, rows, colours and the total apply, or `""` for the first."""
    sheets: Names = ()
    columns: Names = ()
    rows: Annotated[Span | None, By(read_span)] = None
    red_where: Name = ""
    coloured: Annotated[Coloured | None, By(_read_coloured)] = None
    total: Name = ""
    formulas: Annotated[tuple[Area | str, ...], By(_read_formulas)] = ()
    reconcile: Annotated[tuple[Annotated[Reconcile, By(_read_reconcile)], ...], SOME] = ()
    mutate: Annotated[tuple[Annotated[Mutate, By(_read_mutate)], ...], SOME] = ()
    assumptions: _Areas = ()
    like: Name = ""

    @property
    def of_a_table(self) -> bool:
        return bool(self.columns or self.rows or self.red_where or self.coloured or self.total)


def read_expected(expect: Mapping[str, object]) -> Expected:
    """Read a brief's options; raise `BriefError` if they are invalid."""
    if unknown := sorted(set(expect) - set(EXAMPLES)):
        raise make_unknown_error("xlsx", unknown[0], EXAMPLES)
    try:
        expected = read(Expected, dict(expect))
    except StrictError as e:
        key = str(e.path[0])
        raise ExpectationError(f"xlsx: invalid {key}: {e.why}; write {key} = {EXAMPLES[key]}", e.path) from None
    for key, column in _list_named_columns(expected):
        if expected.columns and column not in expected.columns:
            raise ExpectationError(f"xlsx: {key} {explain_column(column, expected.columns)}", (key,))
    return expected


def _list_named_columns(expected: Expected) -> list[tuple[str, str]]:
    named = [("red_where", expected.red_where), ("total", expected.total)]
    named.append(("coloured", expected.coloured.column if expected.coloured else ""))
    named += [("formulas", each) for each in expected.formulas if isinstance(each, str)]
    return [(key, column) for key, column in named if column]


def _parse_cell(value: object) -> Area:
    found = _parse_sheet_area(value)
    if found.size != 1:
        raise ValueError("expected one cell, such as Summary!B2")
    return found


def _read_formulas(value: object) -> tuple[Area | str, ...]:
    """Read the places of required formulas: areas, and columns by their headings."""
    named = [re.fullmatch(r"column (.+)", each) for each in texts(value)]
    return tuple(
        found[1] if found else _parse_sheet_area(each) for found, each in zip(named, texts(value), strict=True)
    )


def require_table(value: object, needed: set[str], allowed: set[str]) -> Mapping[str, object]:
    if not isinstance(value, dict) or not needed <= set(value) <= needed | allowed:
        optional = f", and optionally {', '.join(sorted(allowed))}" if allowed else ""
        raise ValueError(f"expected a table with {', '.join(sorted(needed))}{optional}")
    return value


def _read_coloured(value: object) -> Coloured:
    fields = require_table(value, {"colour"}, {"rows", "column", "is"})
    colour = text(fields["colour"])
    if colour not in COLOURS and not re.fullmatch(r"[0-9A-Fa-f]{6}", colour, re.ASCII):
        raise ValueError(
            f"unknown colour; the colours are {', '.join(COLOURS)}, or six hexadecimal digits such as FFC7CE"
        )
    if set(fields) == {"colour", "rows"}:
        numbers = fields["rows"]
        if not isinstance(numbers, list) or not all(type(each) is int and each > 1 for each in numbers):
            raise ValueError("rows must be a list of row numbers, each 2 or more, because row 1 has the headings")
        return Coloured(colour, frozenset(numbers))
    if set(fields) == {"colour", "column", "is"} and isinstance(fields["is"], list):
        return Coloured(colour, frozenset(), text(fields["column"]), frozenset(map(text, fields["is"])))
    raise ValueError("expected either `rows`, or `column` and `is`, to select the coloured rows")


def _read_reconcile(value: object) -> Reconcile:
    fields = require_table(value, {"cell"}, {"with", "source", "column", "within"})
    within = fields.get("within", CENT)
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 <= within < math.inf:
        raise ValueError("`within` must be a number, 0 or more")
    if "with" in fields and not {"source", "column"} & set(fields):
        return Reconcile(_parse_cell(fields["cell"]), _parse_cell(fields["with"]), within=float(within))
    if {"source", "column"} <= set(fields) and "with" not in fields:
        return Reconcile(
            _parse_cell(fields["cell"]), None, text(fields["source"]), text(fields["column"]), float(within)
        )
    raise ValueError("expected either `with` (another cell), or `source` (a file) and `column`")


def _read_mutate(value: object) -> Mutate:
    fields = require_table(value, {"set", "to"}, {"moves", "stays"})
    to = fields["to"]
    if isinstance(to, bool) or not isinstance(to, str | int | float) or (isinstance(to, float) and math.isinf(to)):
        raise ValueError("`to` must be a number or a text")
    moves, stays = (compile_reader(_Areas)(fields[key]) if key in fields else () for key in ("moves", "stays"))
    if not 0 < sum(each.size for each in (*moves, *stays)) <= MOST_OUTPUTS:
        raise ValueError(f"`moves` and `stays` must have 1 to {MOST_OUTPUTS} cells in total")
    return Mutate(_parse_cell(fields["set"]), to if isinstance(to, str) else float(to), moves, stays)
