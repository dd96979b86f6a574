"""Faults as instructions: one line for each kind and range of cells, rows, lines or pages, with the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from hotdesk.checks.fault import Fault
from hotdesk.checks.xlsx.place import format_column, parse_area
from hotdesk.dataclass import dataclass

MAX_LINES = 50
"""Maximum lines of a summary, without the last one that counts the rest."""
MAX_RANGES = 12
"""Maximum ranges listed in one line."""
MAX_UNLIKE = 5
"""Maximum lines of one kind with different texts; more of them become one line with examples."""
_EXAMPLES = 2
_MAX_TEXT_CHARS, _MAX_PLACE_CHARS, _MAX_EXAMPLE_CHARS = 300, 240, 150
_MAX_SHEET_CHARS = 60
_ROWS = re.compile(r"(?s)(.*)!([1-9][0-9]{0,6}):\2")
_NUMBERED = re.compile(r"(line|page|slide) ([1-9][0-9]{0,8})((?:,.*)?)", re.ASCII | re.DOTALL)
_INDEX = re.compile(r"(?s)(.*\[)([0-9]{1,9})(\][^\[\]]*)", re.ASCII)
_PLAIN_SHEET = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of one fault, parsed so that adjacent places can be joined to a range."""

    kind: str
    """`cell`, `row`, `number` (line or page), `index` (of a list), `text` (other), or `""` for the whole file."""
    before: str
    """The common part before the number: the sheet, or the word `line`."""
    row: int = 0
    column: int = 0
    after: str = ""


@dataclass(frozen=True, slots=True)
class _Group:
    """Faults that are described in one line."""

    faults: tuple[Fault, ...]
    places: tuple[_Place, ...]


def summarize(faults: Sequence[Fault], more: int = 0) -> list[str]:
    """Return faults as instructions, one line per kind and range; `more` is the number of unlisted faults."""
    groups = list(_merge_unlike(_group_alike(faults)))
    more += sum(len(each.faults) for each in groups[MAX_LINES:])
    lines = [_format_group(each) for each in groups[:MAX_LINES]]
    return [*lines, f"and {more} more {'fault' if more == 1 else 'faults'}"] if more else lines


def _group_alike(faults: Iterable[Fault]) -> list[_Group]:
    """Group faults with the same text at different places of one kind, in the order of their first occurrence."""
    found: dict[tuple[str, ...], list[tuple[Fault, _Place]]] = {}
    for fault in faults:
        place = _parse_place(fault.where)
        after = place.after if place.kind != "text" else ""
        key = (fault.rule, fault.expected, fault.found, fault.remedy, place.kind, place.before, after)
        found.setdefault(key, []).append((fault, place))
    return [_Group(*map(tuple, zip(*each, strict=True))) for each in found.values()]


def _merge_unlike(groups: Sequence[_Group]) -> list[_Group]:
    """Merge many groups with the same rule and remedy but different texts into one.

    Without a remedy, only the expected text says what to do, so groups must have it in common.
    """
    found: dict[tuple[str, ...], list[_Group]] = {}
    for group in groups:
        fault, place = group.faults[0], group.places[0]
        what_to_do = fault.remedy or f"\0{fault.expected}"
        found.setdefault((fault.rule, what_to_do, place.kind, place.before), []).append(group)
    merged = []
    for alike in found.values():
        if len(alike) <= MAX_UNLIKE:
            merged += alike
        else:
            faults = tuple(fault for each in alike for fault in each.faults)
            merged.append(_Group(faults, tuple(place for each in alike for place in each.places)))
    return merged


def _format_group(group: _Group) -> str:
    """Format one line: places, expected and found, remedy."""
    where, text = _format_places(group), _format_texts(group)
    remedy = group.faults[0].remedy
    line = f"{where}: {text}" if where else text
    return f"{line.rstrip('.')}. {remedy}" if remedy else line


def _format_texts(group: _Group) -> str:
    """Describe what was expected and found; if faults differ, by examples."""
    first = group.faults[0]
    if all((each.expected, each.found) == (first.expected, first.found) for each in group.faults):
        return f"expected {_cut(first.expected)}, found {_cut(first.found)}"
    some = [(_format_example(place), fault) for fault, place in zip(group.faults, group.places, strict=True)]
    if all(each.expected == first.expected for each in group.faults):
        found = [f"{_cut(each.found, _MAX_EXAMPLE_CHARS)} ({where})" for where, each in some[:_EXAMPLES]]
        return f"expected {_cut(first.expected)}, found for example {' and '.join(found)}"
    return "for example " + "; ".join(
        f"{where}: expected {_cut(each.expected, _MAX_EXAMPLE_CHARS)}, found {_cut(each.found, _MAX_EXAMPLE_CHARS)}"
        for where, each in some[:_EXAMPLES]
    )


def _format_example(place: _Place) -> str:
    """Format the place of an example briefly: the line already names the sheet."""
    match place.kind:
        case "cell":
            return f"{format_column(place.column)}{place.row}"
        case "row":
            return f"row {place.row}"
        case "number":
            return f"{place.before} {place.row}{_cut(place.after, 60)}"
        case "index":
            return _cut(f"{place.before}{place.row}{place.after}", 80)
    return _cut(place.after, 60)


def _parse_place(where: str) -> _Place:
    if rows := _ROWS.fullmatch(where):
        return _Place("row", rows[1], int(rows[2]))
    if numbered := _NUMBERED.fullmatch(where):
        return _Place("number", numbered[1], int(numbered[2]), after=numbered[3])
    sheet, mark, at = where.rpartition("!")
    try:
        found = parse_area(f"s!{at}") if mark and sheet and "$" not in at else None
    except ValueError:
        found = None
    if found is not None and found.size == 1 and str(found) == f"s!{at}":
        return _Place("cell", sheet, found.top, found.left)
    if index := _INDEX.fullmatch(where):
        return _Place("index", index[1], int(index[2]), after=index[3])
    return _Place("text" if where else "", "", after=where)


def _format_places(group: _Group) -> str:
    places = sorted(set(group.places), key=lambda each: (each.row, each.column, each.after))
    if len(places) == 1:
        return _format_single(group.faults[0].where, places[0])
    kind, before = places[0].kind, places[0].before
    match kind:
        case "cell":
            ranges = [_format_range(*each) for each in find_rectangles((each.row, each.column) for each in places)]
            sizes = [size for *_, size in find_rectangles((each.row, each.column) for each in places)]
            return f"{_quote_sheet(before)}!{_list_ranges(ranges, sizes, 'cell')} ({len(places)} cells)"
        case "row":
            return f"{_quote_sheet(before)}, rows {_list_runs(places, 'row')} ({len(places)} rows)"
        case "number":
            after = places[0].after if len({each.after for each in places}) == 1 else ""
            column = f" ({_cut(after.removeprefix(', '), 80)})" if after else ""
            count = f" ({len(places)} places)" if len(places) > len({each.row for each in places}) else ""
            return f"{before}s {_list_runs(places, before)}{column}{count}"
        case "index":
            after = places[0].after if len({each.after for each in places}) == 1 else "]"
            return f"{_cut(before, 80)}{_list_runs(places, 'item')}{_cut(after, 80)} ({len(places)} places)"
    names = [_cut(each.after, 60) for each in places]
    return _list_ranges(names, [1] * len(names), "place")


def _format_single(where: str, place: _Place) -> str:
    if place.kind == "cell":
        return f"{_quote_sheet(place.before)}!{format_column(place.column)}{place.row}"
    return _cut(where, _MAX_PLACE_CHARS)


def _quote_sheet(name: str) -> str:
    """Quote a sheet's name, which the file chose, as in a formula."""
    short = _cut(name, _MAX_SHEET_CHARS)
    return short if _PLAIN_SHEET.fullmatch(short) else "'" + short.replace("'", "''") + "'"


def _list_runs(places: Sequence[_Place], word: str) -> str:
    runs = find_runs(each.row for each in places)
    ranges = [f"{first}" if first == last else f"{first}-{last}" for first, last in runs]
    return _list_ranges(ranges, [last - first + 1 for first, last in runs], word)


def _list_ranges(ranges: Sequence[str], sizes: Sequence[int], word: str) -> str:
    listed = ", ".join(ranges[:MAX_RANGES])
    rest = sum(sizes[MAX_RANGES:])
    return f"{listed} and {rest} more {word}{'s' if rest > 1 else ''}" if rest else listed


def find_runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    found = []
    for _, run in groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0]):
        each = [number for _, number in run]
        found.append((each[0], each[-1]))
    return found


def find_rectangles(cells: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int, int]]:
    """Cover cells, given by row and column, with disjoint rectangles: left, top, right, bottom, number of cells.

    Adjacent columns with the same run of rows form one rectangle.
    """
    columns: dict[int, list[int]] = {}
    for row, column in cells:
        columns.setdefault(column, []).append(row)
    by_run: dict[tuple[int, int], list[int]] = {}
    for column, rows in columns.items():
        for run in find_runs(rows):
            by_run.setdefault(run, []).append(column)
    found = [
        (left, top, right, bottom, (right - left + 1) * (bottom - top + 1))
        for (top, bottom), listed in by_run.items()
        for left, right in find_runs(listed)
    ]
    return sorted(found, key=lambda each: (each[0], each[1]))


def _format_range(left: int, top: int, right: int, bottom: int, size: int) -> str:
    first = f"{format_column(left)}{top}"
    return first if size == 1 else f"{first}:{format_column(right)}{bottom}"


def _cut(text: str, longest: int = _MAX_TEXT_CHARS) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
