"""Faults as a person may read them."""

from __future__ import annotations

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.workbook import Cell, Shown
from hotdesk.errors import printable

MAX_QUOTE_CHARS = 160
"""Characters of the longest quotation."""


def fault(rule: str, where: str, expected: str, found: str) -> Fault:
    """Say that something is wrong."""
    return Fault(rule, short(where), short(expected), short(found))


def short(text: str) -> str:
    """Cut a text, and escape what steers."""
    return printable(text if len(text) <= MAX_QUOTE_CHARS else text[: MAX_QUOTE_CHARS - 1] + "…")


def format_value(value: Shown) -> str:
    """Say a value."""
    if value is None:
        return "nothing"
    return f"{value:.12g}" if isinstance(value, float) else f"{value!r}"


def format_saved_value(cell: Cell) -> str:
    """Say what a cell was saved with."""
    return str(cell.value) if cell.kind == "e" else format_value(cell.value)
