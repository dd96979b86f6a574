"""Audits a workbook for faults that show no error, such as inconsistent formulas and unused inputs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.cover import Cover
from hotdesk.checks.xlsx.faults import format_value, make_fault
from hotdesk.checks.xlsx.formula import parse
from hotdesk.checks.xlsx.place import Area
from hotdesk.checks.xlsx.workbook import Cell, Sheet, Workbook
from hotdesk.dataclass import dataclass

At = tuple[int, int]
NUMBER = "a number"
"""The family of typed numbers."""
FEWEST = 3
"""Minimum number of formulas in a family."""
_RARE = 8
"""At most one in this many cells of a run may differ to count as a slip; more are intended."""
_INPUTS = re.compile(r"\b(assumption|input|parameter|driver)s?\b", re.IGNORECASE)
_MOST_INPUTS = 300
"""Maximum numbers on a sheet of inputs; a sheet with more has data, which need not all be read."""
FAR = {"INDIRECT", "OFFSET"}
"""Functions that read cells they do not name."""
LOOKUPS = {"MATCH", "VLOOKUP", "HLOOKUP", "XLOOKUP", "LOOKUP", "INDEX", "COUNTIF", "COUNTIFS", "SUMIF", "SUMIFS"}
LOOKUPS |= {"XMATCH", "COUNTA", "AVERAGEIF", "AVERAGEIFS", "UNIQUE", "FILTER", "VALUE", "NUMBERVALUE", "TEXT"}
"""Functions that compare, count or convert their arguments and so do not need numbers."""
_NUMERIC = re.compile(r"[-+(]?\s?[$€£]?\s?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s?[%€]?\)?", re.ASCII)
AMOUNT = re.compile(r".*(\d\.\d\d?|,\d{3}|[$€£%]).*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Slip:
    """A cell that differs from both its neighbours, which are alike."""

    at: At
    family: str
    neighbour: At


def find_odd_formulas(book: Workbook) -> Iterator[Fault]:
    """Find single cells in a run of formulas that have another formula, read another sheet or are typed numbers."""
    for sheet in book.sheets:
        for slip in _find_slips(sheet):
            own, other = sheet.formulas.get(slip.at), sheet.formulas[slip.neighbour]
            elsewhere = own is not None and own.bare == other.bare
            yield _slip_fault("wrong-sheet" if elsewhere else "families", sheet, slip)


def _slip_fault(rule: str, sheet: Sheet, slip: Slip) -> Fault:
    near = sheet.name_cell(slip.neighbour).rpartition("!")[2]
    cell = sheet.cells[slip.at]
    found = sheet.quote_formula(slip.at) if cell.formula else f"the typed number {format_value(cell.shown)}"
    expected = f"a formula like that of {near} ({sheet.quote_formula(slip.neighbour)})"
    return make_fault(rule, sheet.name_cell(slip.at), expected, found)


def _find_slips(sheet: Sheet) -> list[Slip]:
    """Find cells that differ from their neighbours above and below or on both sides, but not whole rows or columns."""
    kinds = {at: family for at, cell in sheet.cells.items() if (family := _get_family(sheet, at, cell))}
    down = _find_unlike_cells(kinds, along=0)
    across = _find_unlike_cells(kinds, along=1)
    found = {
        each.at: each
        for each in (*_select_lone_slips(down, sheet, along=0), *_select_lone_slips(across, sheet, along=1))
    }
    return [found[at] for at in sorted(found)]


def _get_family(sheet: Sheet, at: At, cell: Cell) -> str:
    """Return a cell's family: the shape of its formula, or `NUMBER`."""
    if at in sheet.formulas:
        return "=" + sheet.formulas[at].shape
    return NUMBER if cell.kind == "n" and not cell.formula else ""


def _find_unlike_cells(kinds: Mapping[At, str], along: int) -> dict[At, Slip]:
    found: dict[At, Slip] = {}
    for run in iterate_runs(kinds, along):
        sizes = Counter(kinds[at] for at in run)
        for at, near in (*_find_outliers(kinds, run), *_find_outlier_pairs(kinds, run, sizes)):
            if _is_family(kinds[near], sizes, kinds[at]):
                found[at] = Slip(at, kinds[at], near)
    return found


def _find_outliers(kinds: Mapping[At, str], run: Sequence[At]) -> Iterator[tuple[At, At]]:
    """Yield each cell that differs from both its neighbours, which are alike, with one of them."""
    for before, at, after in zip(run, run[1:], run[2:], strict=False):
        if kinds[at] != kinds[before] == kinds[after]:
            yield at, before


def _find_outlier_pairs(kinds: Mapping[At, str], run: Sequence[At], sizes: Counter[str]) -> Iterator[tuple[At, At]]:
    for before, at, other, after in zip(run, run[1:], run[2:], run[3:], strict=False):
        family = kinds[before]
        if family == kinds[after] and family not in (kinds[at], kinds[other]) and sizes[family] > FEWEST:
            yield from ((at, before), (other, after))


def _is_family(family: str, sizes: Counter[str], other: str) -> bool:
    """Return whether formulas form a family in which another kind of cell is rare."""
    return family != NUMBER and sizes[family] >= FEWEST and sizes[other] <= max(1, sizes[family] // _RARE)


def iterate_runs(kinds: Mapping[At, str], along: int) -> Iterator[list[At]]:
    """Yield sequences of adjacent cells, down a column or across a row."""
    run: list[At] = []
    for at in sorted(kinds, key=lambda at: (at[1 - along], at[along])):
        if run and (at[1 - along] != run[-1][1 - along] or at[along] != run[-1][along] + 1):
            yield run
            run = []
        run.append(at)
    yield run


def _select_lone_slips(found: Mapping[At, Slip], sheet: Sheet, along: int) -> Iterator[Slip]:
    """Skip intended differences: subtotals, rows or columns that differ as a whole, and ratios that continue across.

    A growth rate in a row of totals has the formula of the growth rates above it. A product has not: it needs a sum.
    """
    for at, slip in found.items():
        if not (
            _is_subtotal(sheet, at, along)
            or _has_company(found, at, slip.family, along)
            or _is_continued_ratio(sheet, at, 1 - along)
        ):
            yield slip


def _is_continued_ratio(sheet: Sheet, at: At, along: int) -> bool:
    """Return whether a formula divides, and is one of `FEWEST` adjacent ones of its family in this direction."""
    if (form := sheet.formulas.get(at)) is None or "/" not in form.shape:
        return False
    count = 1
    for step in (-1, 1):
        for distance in range(1, FEWEST):
            place = (at[0] + step * distance, at[1]) if along == 0 else (at[0], at[1] + step * distance)
            near = sheet.formulas.get(place)
            if near is None or near.shape != form.shape:
                break
            count += 1
    return count >= FEWEST


def _is_subtotal(sheet: Sheet, at: At, along: int) -> bool:
    form, (row, column) = sheet.formulas.get(at), at
    areas = form.iterate_areas(sheet.name, column, row) if form else ()
    for area in areas:
        own = area.left <= column <= area.right if along == 0 else area.top <= row <= area.bottom
        if own and area.sheet == sheet.name and (area.bottom - area.top, area.right - area.left)[along] > 0:
            return True
    return False


def _has_company(found: Mapping[At, Slip], at: At, family: str, along: int) -> bool:
    across = 1 - along
    reach = 2 if family == NUMBER else 1
    steps = [[at[0] + step * (across == 0), at[1] + step * (across == 1)] for step in range(-reach, reach + 1)]
    same = [(near := found.get((row, column))) is not None and near.family == family for row, column in steps]
    return any(all(same[first : first + reach + 1]) for first in range(reach + 1))


def is_far(book: Workbook) -> bool:
    """Return whether formulas read cells they do not name, so that no input can be called unused."""
    return bool(book.calls & FAR)


def find_unused_inputs(book: Workbook, named: Sequence[Area]) -> Iterator[Fault]:
    if is_far(book):
        return
    covers = {name: Cover(areas) for name, areas in _collect_read_areas(book).items()}
    for sheet in book.sheets:
        cover = covers.get(sheet.name.casefold(), Cover(()))
        for at, cell in _iterate_inputs(sheet, named):
            if not cover.has(at):
                found = f"{format_value(cell.shown)}, which no formula reads"
                yield make_fault("unused", sheet.name_cell(at), "an input that a formula reads", found)


def _iterate_inputs(sheet: Sheet, named: Sequence[Area]) -> Iterator[tuple[At, Cell]]:
    """Yield the inputs: numbers in areas that the brief names, or labelled numbers on a sheet named as inputs."""
    own = [area for area in named if area.sheet.casefold() == sheet.name.casefold()]
    numbers = [(at, cell) for at, cell in sheet.cells.items() if cell.kind == "n" and not cell.formula]
    if own:
        yield from ((at, cell) for at, cell in numbers if any(area.has(at[1], at[0]) for area in own))
    elif _INPUTS.search(sheet.name) and len(numbers) <= _MOST_INPUTS:
        yield from ((at, cell) for at, cell in numbers if _is_labelled(sheet, at) and not _is_year(sheet, at))


def _is_labelled(sheet: Sheet, at: At) -> bool:
    """Return whether a text is to the left of a number, or of the numbers before it."""
    row, column = at
    previous = [cell for place in range(column - 1, 0, -1) if (cell := sheet.cells.get((row, place)))]
    return next((cell.kind == "t" for cell in previous if cell.kind != "n"), False)


def _is_year(sheet: Sheet, at: At) -> bool:
    """Return whether a number is part of a row of years, which is a heading and not an input."""
    row, column = at
    value, near = sheet.cells[at].number, [sheet.cells.get((row, column + step)) for step in (-1, 1)]
    steps = [cell.number - value for cell in near if cell and cell.number is not None and value is not None]
    return value is not None and 1900 <= value <= 2100 and any(abs(step) == 1 for step in steps)


def _collect_read_areas(book: Workbook) -> Mapping[str, set[Area]]:
    """Return the areas that formulas read, by sheet: directly, by name or as a table."""
    found: dict[str, set[Area]] = {}
    words = set[str]()
    for sheet in book.sheets:
        for (row, column), form in sheet.formulas.items():
            words |= form.words
            for area in form.iterate_areas(sheet.name, column, row):
                found.setdefault(area.sheet.casefold(), set()).add(area)
    for area in _iterate_named_areas(words, book):
        found.setdefault(area.sheet.casefold(), set()).add(area)
    return found


def _iterate_named_areas(words: Iterable[str], book: Workbook) -> Iterator[Area]:
    stands = {name.upper(): parse(text, 1, 1) for name, text in book.names.items()}
    for word in words:
        if word in book.tables:
            yield book.tables[word]
        if word in stands:
            yield from stands[word].iterate_areas("", 1, 1)


def find_text_numbers(book: Workbook) -> Iterator[Fault]:
    """Find numbers stored as text where numbers are expected, since sums ignore them."""
    for sheet in book.sheets:
        texts = {at: cell for at, cell in sheet.cells.items() if _is_numeric_text(cell)}
        if not texts:
            continue
        numbers = {at for at, cell in sheet.cells.items() if cell.number is not None}
        columns, likely = Counter(at[1] for at in texts), Counter(at[1] for at in numbers)
        summed = Cover(_find_calculated_areas(book, sheet))
        for at, cell in texts.items():
            among = likely[at[1]] >= columns[at[1]] and not is_head(sheet, at)
            if at[0] > 1 and (among or AMOUNT.fullmatch(str(cell.value)) or summed.has(at)):
                found = f"the text {format_value(cell.value)}"
                yield make_fault("text-numbers", sheet.name_cell(at), "a number", found)


def _is_numeric_text(cell: Cell) -> bool:
    """Return whether a text is a number; one with a leading zero is a code, such as a post code."""
    text = str(cell.value).strip() if cell.kind == "t" and not cell.formula else ""
    return len(text) <= 30 and bool(_NUMERIC.fullmatch(text)) and not re.match(r"0\d", text)


def is_head(sheet: Sheet, at: At) -> bool:
    row, column = at
    return (row - 1, column) not in sheet.cells and (row + 1, column) in sheet.cells


def _find_calculated_areas(book: Workbook, sheet: Sheet) -> set[Area]:
    found = set[Area]()
    for each in book.sheets:
        for (row, column), form in each.formulas.items():
            if not form.calls & LOOKUPS:
                found |= {area for area in form.iterate_areas(each.name, column, row) if area.sheet == sheet.name}
    return found
