"""Rules for every workbook: no errors, and saved values equal the recalculated ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.faults import format_error, format_saved_value, format_value, make_fault, quote_text
from hotdesk.checks.xlsx.place import Area
from hotdesk.checks.xlsx.workbook import Cell, Sheet, Shown, Workbook

_CIRCLES = ("Err:522", "Err:523")
"""Errors of LibreOffice for circular references."""
_UNSTEADY = {"NOW", "TODAY", "RAND", "RANDBETWEEN", "RANDARRAY"}
"""Functions whose result differs each time."""
_ITERATIVE = frozenset(
    """
    IRR XIRR RATE YIELD ODDFYIELD NORM.INV NORMINV NORM.S.INV NORMSINV T.INV T.INV.2T TINV CHISQ.INV CHISQ.INV.RT CHIINV
    F.INV F.INV.RT FINV BETA.INV BETAINV GAMMA.INV GAMMAINV LOGNORM.INV LOGINV CONFIDENCE CONFIDENCE.NORM CONFIDENCE.T
    """.split()
)
"""Functions that programs approximate in steps, and end at different digits."""
_PRECISION, _ITERATIVE_PRECISION = 1e-9, 1e-6
"""Relative difference of equal values."""
_PLACES_ONLY = {"ROW", "ROWS", "COLUMN", "COLUMNS", "CELL", "OFFSET", "ADDRESS", "SUBTOTAL", "AGGREGATE", "INDIRECT"}
"""Functions that may refer to their own cell without reading its value."""
MOST_STEPS = 5_000_000
NOT_CALCULATED = ("a value saved with the formula", "no value: the formula was never calculated")
_ACYCLIC = "a formula that does not depend on its own cell"
_NAME = "Delete the defined name, or let it refer to existing cells."
_CHART = "Let every series of the chart read existing cells."


def find_errors(book: Workbook) -> Iterator[Fault]:
    """Find error values, saved or after recalculation, and names and charts that refer to deleted cells."""
    for sheet in book.sheets:
        for at, cell in sheet.cells.items():
            if cell.fresh_kind == "e" and cell.fresh not in _CIRCLES:
                text = f"{format_error(cell.fresh)} from {sheet.quote_formula(at)}"
                again = "" if cell.kind == "e" else ", after recalculation"
                yield make_fault("errors", sheet.name_cell(at), "a value", text + again)
            elif cell.kind == "e" and not cell.fresh_kind:
                yield make_fault("errors", sheet.name_cell(at), "a value", format_error(cell.value))
    for name, stands in book.names.items():
        if "#REF!" in stands:
            yield make_fault(
                "errors", f"name {name}", "a defined name that refers to existing cells", quote_text(stands), _NAME
            )
    for chart in book.broken:
        yield make_fault("errors", chart, "a chart that reads existing cells", "#REF!", _CHART)


def find_uncalculated(book: Workbook) -> Iterator[Fault]:
    """Find formulas saved without a value, which programs that do not recalculate show as empty."""
    for sheet, at, cell in iterate_formulas(book):
        if not cell.kind and cell.fresh_kind != "e":
            yield make_fault("calculated", sheet.name_cell(at), *NOT_CALCULATED)


def find_stale_values(book: Workbook) -> Iterator[Fault]:
    unsteady = steady(book)
    iterative = _find_dependent_cells(book, _ITERATIVE) if book.calls & _ITERATIVE else set()
    for sheet, at, cell in iterate_formulas(book):
        if not cell.kind or cell.fresh_kind == "e" or unsteady(sheet, at):
            continue
        precision = _ITERATIVE_PRECISION if (sheet.name, at) in iterative else _PRECISION
        if not _is_same_value(cell.value, cell.fresh, precision):
            expected = f"the saved value {format_value(cell.fresh)}, the result of {sheet.quote_formula(at)}"
            yield make_fault("fresh", sheet.name_cell(at), expected, format_saved_value(cell))


def iterate_formulas(book: Workbook) -> Iterator[tuple[Sheet, tuple[int, int], Cell]]:
    for sheet in book.sheets:
        for at, cell in sheet.cells.items():
            if cell.formula:
                yield sheet, at, cell


def _is_same_value(one: Shown, other: Shown, precision: float) -> bool:
    """Return whether two values of different programs are equal, except for the last digits they calculate."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=precision, abs_tol=1e-6)
    return one == other


def is_unchanged(before: Shown, after: Shown) -> bool:
    """Return whether two values of one program are equal, except for the rounding of a sum in another order."""
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, rel_tol=1e-12, abs_tol=1e-9)
    return before == after


def steady(book: Workbook) -> Callable[[Sheet, tuple[int, int]], bool]:
    if not book.calls & _UNSTEADY:
        return lambda sheet, at: False
    found = find_unsteady_cells(book)
    return lambda sheet, at: (sheet.name, at) in found


def find_unsteady_cells(book: Workbook) -> set[tuple[str, tuple[int, int]]]:
    """Return cells that change at each calculation, and those that read them, as far as found in `MOST_STEPS`."""
    return _find_dependent_cells(book, _UNSTEADY)


def _find_dependent_cells(book: Workbook, calls: Set[str]) -> set[tuple[str, tuple[int, int]]]:
    """Return cells that call one of some functions, and those that read them, as far as found in `MOST_STEPS`."""
    every = [(sheet.name, at, form) for sheet in book.sheets for at, form in sheet.formulas.items()]
    new = found = {(name, at) for name, at, form in every if form.calls & calls}
    remaining = MOST_STEPS
    while new and (remaining := remaining - len(every) * (1 + len(new) // 8)) > 0:
        rest = [(name, at, form) for name, at, form in every if (name, at) not in found]
        new = {
            (name, at) for name, at, form in rest if any(meets(a, new) for a in form.iterate_areas(name, at[1], at[0]))
        }
        found = found | new
    return found


def meets(area: Area, cells: set[tuple[str, tuple[int, int]]]) -> bool:
    if area.size <= len(cells):
        return any((area.sheet, at) in cells for at in area.iterate_cells())
    return any(area.sheet == name and area.has(column, row) for name, (row, column) in cells)


def find_circular_formulas(book: Workbook) -> Iterator[Fault]:
    for sheet in book.sheets:
        for at, cell in sheet.cells.items():
            if cell.fresh in _CIRCLES and cell.fresh_kind == "e":
                yield make_fault(
                    "circular", sheet.name_cell(at), _ACYCLIC, f"{sheet.quote_formula(at)}, a circular reference"
                )
            elif _reads_itself(sheet, at):
                yield make_fault(
                    "circular", sheet.name_cell(at), _ACYCLIC, f"{sheet.quote_formula(at)}, which reads its own cell"
                )


def _reads_itself(sheet: Sheet, at: tuple[int, int]) -> bool:
    """Return whether a formula reads its own cell, and not only its position."""
    form = sheet.formulas.get(at)
    if form is None or form.calls & _PLACES_ONLY:
        return False
    row, column = at
    return any(
        area.sheet == sheet.name and area.has(column, row) for area in form.iterate_areas(sheet.name, column, row)
    )
