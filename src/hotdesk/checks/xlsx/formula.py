"""Parses formulas: their shape relative to their cell, and the cells they read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from hotdesk.checks.xlsx.place import LAST_COLUMN, LAST_ROW, Area, parse_column
from hotdesk.dataclass import dataclass

TOKEN = re.compile(
    r"""(?P<text>"(?:[^"]|"")*+(?:"|\Z))"""
    r"""|(?P<sheet>'(?:[^']|'')*+'!|\[?[\w.\]]++!)?(?P<cell>\$?[A-Z]{1,3}\$?[0-9]{1,7}(?::\$?[A-Z]{1,3}\$?[0-9]{1,7})?"""
    r"""|\$?[A-Z]{1,3}:\$?[A-Z]{1,3}|\$?[0-9]{1,7}:\$?[0-9]{1,7})(?![\w.(])"""
    r"""|'(?:[^']|'')*+(?:'|\Z)|(?P<word>[^\W\d][\w.]*+)(?P<call>\()?|[0-9.]++[^\w'"$\[]*+""",
    re.DOTALL,
)
"""The relevant tokens of a formula. No alternative backtracks, so a hostile formula takes linear time."""
END = re.compile(r"(\$?)([A-Z]{1,3})?(\$?)([0-9]{1,7})?", re.ASCII)
_Coordinate = tuple[bool, int]
"""Whether the coordinate is relative to the cell, and the offset or the absolute position."""


class FormulaRange(NamedTuple):
    """An area that a formula reads, relative to its cell."""

    sheet: str
    """Name of the sheet, or `""` for the formula's own."""
    left: _Coordinate
    top: _Coordinate
    right: _Coordinate
    bottom: _Coordinate

    def resolve_area(self, sheet: str, column: int, row: int) -> Area:
        columns = sorted((_resolve_coordinate(self.left, column), _resolve_coordinate(self.right, column)))
        rows = sorted((_resolve_coordinate(self.top, row), _resolve_coordinate(self.bottom, row)))
        return Area(self.sheet or sheet, columns[0], rows[0], columns[1], rows[1])


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula without its place: the same for every cell it was filled into."""

    shape: str
    """Its text with relative references."""
    bare: str
    """The same text without sheet names."""
    reads: tuple[FormulaRange, ...]
    words: frozenset[str]
    """Names it uses other than functions, in capitals."""
    calls: frozenset[str]
    """Functions it calls, in capitals."""

    def iterate_areas(self, sheet: str, column: int, row: int) -> Iterator[Area]:
        return (each.resolve_area(sheet, column, row) for each in self.reads)


def parse(text: str, column: int, row: int) -> Formula:
    shape, bare, reads = list[str](), list[str](), list[FormulaRange]()
    words, calls, done = set[str](), set[str](), 0
    text = text.removeprefix("=")
    for token in TOKEN.finditer(text):
        between = text[done : token.start()].replace(" ", "")
        done = token.end()
        sheet, canonical = "", token.group() if token["text"] else token.group().upper().replace(" ", "")
        if token["cell"]:
            found = parse_reference(token["sheet"] or "", token["cell"], column, row)
            reads.append(found)
            sheet, canonical = f"{found.sheet}!", f"[{found.left}{found.top}{found.right}{found.bottom}]"
        elif token["word"]:
            (calls if token["call"] else words).add(token["word"].upper().removeprefix("_XLFN."))
        shape += (between, sheet, canonical)
        bare += (between, canonical)
    rest = text[done:].replace(" ", "")
    return Formula("".join(shape) + rest, "".join(bare) + rest, tuple(reads), frozenset(words), frozenset(calls))


def parse_reference(sheet: str, cell: str, column: int, row: int) -> FormulaRange:
    name = sheet.removesuffix("!")
    if name.startswith("'"):
        name = name[1:-1].replace("''", "'")
    first, _, last = cell.partition(":")
    one, other = END.fullmatch(first), END.fullmatch(last or first)
    if one is None or other is None:
        raise ValueError("invalid reference")
    return FormulaRange(
        name,
        coordinate(one[1], parse_column(one[2]) if one[2] else 1, column, fixed=not one[2]),
        coordinate(one[3], int(one[4]) if one[4] else 1, row, fixed=not one[4]),
        coordinate(other[1], parse_column(other[2]) if other[2] else LAST_COLUMN, column, fixed=not other[2]),
        coordinate(other[3], int(other[4]) if other[4] else LAST_ROW, row, fixed=not other[4]),
    )


def coordinate(dollar: str, place: int, own: int, *, fixed: bool) -> _Coordinate:
    return (False, place) if dollar or fixed else (True, place - own)


def _resolve_coordinate(coordinate: _Coordinate, own: int) -> int:
    relative, value = coordinate
    return value + own if relative else value
