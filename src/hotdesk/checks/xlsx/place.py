"""Places in a workbook, such as `Summary!B2:C5`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LAST_COLUMN, LAST_ROW = 16_384, 1_048_576
_AREA_SHAPE = re.compile(r"\$?([A-Z]{1,3})\$?([1-9][0-9]{0,6})(?::\$?([A-Z]{1,3})\$?([1-9][0-9]{0,6}))?", re.ASCII)


class Area(NamedTuple):
    """A rectangle of cells on one sheet, counted from 1. A tuple, because there are hundreds of thousands."""

    sheet: str
    left: int
    top: int
    right: int
    bottom: int

    @property
    def size(self) -> int:
        return (self.right - self.left + 1) * (self.bottom - self.top + 1)

    def has(self, column: int, row: int) -> bool:
        return self.left <= column <= self.right and self.top <= row <= self.bottom

    def iterate_cells(self) -> Iterator[tuple[int, int]]:
        return (
            (row, column) for row in range(self.top, self.bottom + 1) for column in range(self.left, self.right + 1)
        )

    def __str__(self) -> str:
        first, last = f"{format_column(self.left)}{self.top}", f"{format_column(self.right)}{self.bottom}"
        return f"{self.sheet}!{first}" if first == last else f"{self.sheet}!{first}:{last}"


def parse_area(text: str) -> Area:
    """Parse `Sheet!A1` or `'A sheet'!A1:B2`; raise `ValueError` for anything else."""
    sheet, mark, rest = text.rpartition("!")
    found = _AREA_SHAPE.fullmatch(rest)
    if found is None or (mark and not sheet):
        raise ValueError("expected a cell or a cell range, such as Summary!B2:B5")
    if sheet.startswith("'") and sheet.endswith("'") and len(sheet) > 2:
        sheet = sheet[1:-1].replace("''", "'")
    columns = sorted((parse_column(found[1]), parse_column(found[3] or found[1])))
    rows = sorted((int(found[2]), int(found[4] or found[2])))
    if columns[1] > LAST_COLUMN or rows[1] > LAST_ROW:
        raise ValueError("the cell is outside the largest possible sheet, which ends at XFD1048576")
    return Area(sheet, columns[0], rows[0], columns[1], rows[1])


def parse_column(name: str) -> int:
    found = 0
    for letter in name:
        found = found * 26 + ord(letter) - 64
    return found


def format_column(column: int) -> str:
    found = ""
    while column > 0:
        column, rest = divmod(column - 1, 26)
        found = chr(65 + rest) + found
    return found
