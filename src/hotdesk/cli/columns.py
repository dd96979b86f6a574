"""Rows of text in columns."""

from __future__ import annotations

from hotdesk.errors import make_printable

TYPE_CHECKING = False  # importing typing would cost short commands 10 ms
if TYPE_CHECKING:
    from collections.abc import Sequence


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    clean = [[make_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in clean]
