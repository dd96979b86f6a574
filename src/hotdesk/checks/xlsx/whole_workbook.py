"""Expectations of a whole workbook: sheets, formulas, numbers that agree, inputs that change outputs."""

from __future__ import annotations

from collections.abc import Iterator

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.expect import Expected, Mutate, Reconcile
from hotdesk.checks.xlsx.faults import format_value, list_names, make_fault
from hotdesk.checks.xlsx.place import Area
from hotdesk.checks.xlsx.requirements import INPUT, MOVES, STAYS
from hotdesk.checks.xlsx.table import Table
from hotdesk.checks.xlsx.values import is_unchanged
from hotdesk.checks.xlsx.workbook import Like, Mutation, Shown, Sum, Workbook

KINDS = {
    "charts": "charts",
    "pivots": "pivot tables",
    "validations": "data validations",
    "formats": "conditional formats",
    "formulas": "formulas",
}
_OWN_NAMES = "_xlnm."
"""Prefix of names that spreadsheet programs add and remove by themselves."""


def find_missing_sheets(want: Expected, book: Workbook) -> Iterator[Fault]:
    for name in want.sheets:
        if book.find_sheet(name) is None:
            yield make_fault(
                "sheets", "", f"a sheet {name}", f"the sheets {list_names(each.name for each in book.sheets)}"
            )


def find_missing_formulas(want: Expected, book: Workbook, table: Table) -> Iterator[Fault]:
    for each in want.formulas:
        if isinstance(each, str):
            yield from table.find_missing_formulas(each)
            continue
        for row, column in each.iterate_cells():
            where = Area(each.sheet, column, row, column, row)
            cell = book.find_cell(where)
            if cell is None or not cell.formula:
                yield make_fault("formulas", str(where), "a formula", format_value(cell.shown) if cell else "nothing")


def check_reconciliations(want: Expected, book: Workbook) -> Iterator[Fault]:
    sources = iter(book.sums)
    for each in want.reconcile:
        cell = book.find_cell(each.cell)
        value = cell.number if cell else None
        source = next(sources, Sum(why="the source was not read")) if each.source else None
        statement, expected = _find_expected_value(each, book, source)
        if expected is None or value is None or abs(value - expected) > each.within:
            found = format_value(cell.shown) if cell else "nothing"
            yield make_fault("reconcile", str(each.cell), statement, found)


def _find_expected_value(each: Reconcile, book: Workbook, source: Sum | None) -> tuple[str, float | None]:
    """Return a description of the expected number and its value, or `None` if that is unknown."""
    if source is None:
        other = book.find_cell(each.other) if each.other else None
        value = other.number if other else None
        return f"{format_value(value)}, as in {each.other}", value
    name = f"{each.column} of {each.source}"
    if source.why:
        return f"the sum of {name}, which cannot be read: {source.why}", None
    return f"{source.value:.12g}, the sum of {name} over {source.count} rows", source.value


NO_SHEET = "the sheet does not exist"
UNSTEADY = "gives a different result at each calculation"
"""What the program in the desk, `inside/xlsx_look.py`, says of an input."""
STEADY = "Remove functions such as NOW, TODAY and RAND from that formula and the cells it reads."


def check_mutations(want: Expected, book: Workbook) -> Iterator[Fault]:
    for place, each in enumerate(want.mutate):
        done = (
            book.mutations[place] if place < len(book.mutations) else Mutation(why="the check did not change the cell")
        )
        yield from _check_mutation(each, done)


def _check_mutation(each: Mutate, done: Mutation) -> Iterator[Fault]:
    change = f"when {each.cell} is set to {each.to if isinstance(each.to, str) else f'{each.to:.12g}'}"
    if done.why == NO_SHEET:
        expected, remedy = f"an input on the sheet {each.cell.sheet}", "Add a sheet with this name and the input on it."
        yield make_fault("mutation", str(each.cell), expected, "no such sheet", remedy)
        return
    if done.why.endswith(UNSTEADY):
        yield make_fault("mutation", str(each.cell), "outputs that depend on inputs only", done.why, STEADY)
        return
    if done.why or len(done.before) != len(each.outputs):
        yield make_fault(
            "mutation",
            str(each.cell),
            "an input that can be set",
            f"a problem: {done.why}" if done.why else "an incomplete result",
            INPUT,
        )
        return
    if done.input_kind not in ("VALUE", "TEXT"):
        found = f"a formula, {format_value(done.was)}" if done.input_kind == "FORMULA" else "nothing"
        yield make_fault("mutation", str(each.cell), "a typed value", found, INPUT)
    for number, (output, before, after) in enumerate(zip(each.outputs, done.before, done.after, strict=True)):
        shall = number < each.moving
        if is_error(after) or before is None or (shall and after == ""):
            yield make_fault(
                "mutation", str(output), f"a value {change}", format_value(after), MOVES if shall else STAYS
            )
        elif shall and is_unchanged(before, after):
            found = f"{format_value(after)}, unchanged"
            yield make_fault("mutation", str(output), f"a different value {change}", found, MOVES)
        elif not shall and not is_unchanged(before, after):
            expected = f"{format_value(before)}, unchanged {change}"
            yield make_fault("mutation", str(output), expected, format_value(after), STAYS)


def is_error(shown: Shown) -> bool:
    return isinstance(shown, str) and shown.startswith(("#", "Err:"))


def find_losses(want: Expected, book: Workbook) -> Iterator[Fault]:
    if not want.like:
        return
    like = book.like or Like(why="the workbook was not inspected")
    if like.why:
        yield make_fault("kept", want.like, "a workbook to compare with", f"a problem: {like.why}")
    for name, counts in like.sheets.items():
        sheet = book.find_sheet(name)
        if sheet is None:
            yield make_fault("kept", "", f"the sheet {name} of {want.like}", "no such sheet")
            continue
        has = {**sheet.counts, "formulas": sum(1 for cell in sheet.cells.values() if cell.formula)}
        for kind, words in KINDS.items():
            if has[kind] < counts[kind]:
                yield make_fault("kept", name, f"{words} as in {want.like}: {counts[kind]}", f"{has[kind]}")
    for name in like.names:
        if name not in book.names and not name.startswith(_OWN_NAMES):
            yield make_fault("kept", "", f"the defined name {name} of {want.like}", "no such name")
