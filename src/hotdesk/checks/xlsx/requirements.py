"""The requirements of a workbook, in sentences, and a remedy for each rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hotdesk.checks.sentences import list_exactly, list_numbers, list_words, quote_words, show, show_count
from hotdesk.checks.xlsx.expect import Coloured, Expected, Mutate, Reconcile
from hotdesk.checks.xlsx.place import Area, format_column

RECALCULATE = "recalculate with LibreOffice (`soffice --headless --convert-to xlsx --outdir DIR FILE`)"
SAVED_VALUES = (
    f"Every formula must be saved with its calculated value. openpyxl saves none: {RECALCULATE} and deliver that file. "
    "LibreOffice keeps values that are stored already: xlsxwriter stores 0 unless you give it the value, a workbook "
    "edited as XML has its old ones. Load and save such a file with openpyxl before you convert it."
)
NO_ERRORS = "No cell may show an error such as #REF!, #NAME? or #DIV/0!."
STANDING = (
    SAVED_VALUES,
    NO_ERRORS,
    "No formula may depend on its own cell.",
    "Within a column (or row) of formulas that follow one pattern, no single cell may differ: no other formula, no "
    "other sheet, no typed number. A total below the column, and another pattern in another column, are fine.",
    "Numbers must be stored as numbers, not as text.",
)
UNUSED = (
    "If there is a sheet called Assumptions, Inputs, Parameters or Drivers, every labelled number on it must be "
    "used by at least one formula."
)
REMEDIES: Mapping[str, str] = {
    "opens": "Save the file as an .xlsx workbook that LibreOffice can open.",
    "errors": "Correct the formula, or the cells it reads, so that it gives a value.",
    "calculated": f"Before you deliver the workbook, {RECALCULATE}, or write plain values.",
    "fresh": f"Before you deliver the workbook, {RECALCULATE}, so that every saved value is the result of its formula.",
    "circular": "Change the formula so that it does not depend on its own cell.",
    "families": "Use the same formula as in the neighbouring cells.",
    "wrong-sheet": "Make the formula read the same sheet as its neighbours.",
    "unused": "Use this input in a formula, or remove it.",
    "text-numbers": "Store the value as a number, not as text.",
    "sheets": "Add the sheet under exactly this name.",
    "columns": "Write exactly these headings into row 1, in this order, and nothing else.",
    "rows": "Write the rows directly below the headings, none of them empty, and nothing below them but the total.",
    "shown": "Unhide the sheet, and its rows and columns.",
    "total": "Write a sum over all rows, such as =SUM(D2:D9), directly below the last row, and nothing below it.",
    "formulas": "Write a formula instead of a typed value.",
    "reconcile": "Correct the cell, or the cells it reads, until both numbers are equal.",
    "kept": "Edit a copy of that workbook instead of making a new one, so that nothing in it is lost.",
}
FILL = "Fill every cell of the row, from the first heading to the last, with the expected colour."
NO_FILL = "Remove that colour from every cell of the row."
MOVES = "Calculate the cell by a formula that depends on that input."
STAYS = "Correct the formula: the cell must not depend on that input."
INPUT = "Store a plain value in this cell, not a formula: the check changes the value and recalculates the workbook."


def describe_workbook(want: Expected) -> tuple[str, ...]:
    return (*describe_table(want), *_describe_rest(want), *STANDING, *(() if want.assumptions else (UNUSED,)))


def describe_table(want: Expected) -> Iterator[str]:
    sheet = f"sheet {show(want.sheet)}" if want.sheet else "the first sheet"
    if want.columns:
        yield f"Row 1 of {sheet} must have exactly these headings, in this order: {list_exactly(want.columns)}."
    if want.rows is not None:
        total = ", and below them only the row with the total" if want.total else ", and nothing below them"
        rows = show_count(want.rows, "row")
        yield f"Below the headings {sheet} must have {rows}, from row 2 on, each with a value in the first cell{total}."
    if want.red_where:
        yield (
            f"Every cell of a row must have a red fill (such as FFC7CE) where {show(want.red_where)} is not 0, and no "
            f"cell of any other row; {show(want.red_where)} must be a number in every row."
        )
    if want.coloured:
        yield _describe_coloured(want.coloured)
    if want.total:
        yield f"{_describe_total(want)} Nothing may be below that row."


def _describe_total(want: Expected) -> str:
    example = ""
    if want.total in want.columns:
        letter = format_column(want.columns.index(want.total) + 1)
        exact = want.rows is not None and want.rows.least == want.rows.most > 0
        last = want.rows.least + 1 if exact and want.rows else 0
        example = f", such as =SUM({letter}2:{letter}{last or 'N'})" + (f" in {letter}{last + 1}" if last else "")
    return (
        f"Directly below the last row, column {show(want.total)} must have its sum as a formula that reads every "
        f"row{example}."
    )


def _describe_coloured(coloured: Coloured) -> str:
    if coloured.column:
        rows = f"the rows whose {show(coloured.column)} is {list_words(sorted(coloured.values), 'or')}"
    else:
        if not coloured.rows:
            return f"No cell of any row may be filled {show(coloured.colour)}."
        rows = list_numbers("row", coloured.rows)
    return f"Every cell of {rows} must be filled {show(coloured.colour)}, and no cell of any other row."


def _describe_rest(want: Expected) -> Iterator[str]:
    if want.sheets:
        sheets = "the sheets" if len(want.sheets) > 1 else "a sheet called"
        yield f"The workbook must have {sheets} {list_words(want.sheets)}; it may have other sheets, too."
    if want.of_a_table:
        name = f"sheet {show(want.sheet)}" if want.sheet else "the first sheet"
        yield f"Neither {name} nor any of its rows and columns may be hidden."
    for each in want.formulas:
        if isinstance(each, str):
            yield f"Column {show(each)} must have a formula in every row."
        else:
            yield f"On sheet {show(each.sheet)}, {_show_cells(each)} must have {_describe_formulas(each)}."
    yield from map(_describe_reconcile, want.reconcile)
    yield from map(_describe_mutate, want.mutate)
    for each in want.assumptions:
        yield f"Every number in {show(each)} must be read by at least one formula."
    if want.like:
        yield (
            f"The workbook must still have everything in {show(want.like)}: its sheets, formulas, charts, pivot "
            "tables, data validations, conditional formats and defined names. Edit a copy of it."
        )


def _show_cells(each: Area) -> str:
    """Name cells without their sheet, which the sentence has named already."""
    return f"cell{'s' if each.size > 1 else ''} {show(each).rpartition('!')[2]}"


def _describe_formulas(each: Area) -> str:
    return "formulas" if each.size > 1 else "a formula"


def _describe_reconcile(each: Reconcile) -> str:
    other = show(each.other) if each.other else f"the sum of column {show(each.column)} of {show(each.source)}"
    return f"{show(each.cell)} must be equal to {other}, within {each.within:g}."


def _describe_mutate(each: Mutate) -> str:
    moves, stays = list_words(each.moves), list_words(each.stays)
    to = quote_words([each.to]) if isinstance(each.to, str) else f"{each.to:.12g}"
    parts = [f"{moves} must change" if moves else "", f"{stays} must not change" if stays else ""]
    return f"When {show(each.cell)}, a typed value, is set to {to}, {' and '.join(filter(None, parts))}."
