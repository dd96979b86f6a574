"""Texts of faults, shortened and quoted for people."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hotdesk.checks.seam import Fault
from hotdesk.checks.xlsx.requirements import REMEDIES
from hotdesk.checks.xlsx.workbook import Cell, Shown
from hotdesk.errors import make_printable

_ERROR = re.compile(r"#[A-Z0-9/_]{1,20}[!?]?|Err:\d{1,4}", re.ASCII)

MAX_QUOTE_CHARS = 160
"""Maximum characters of a text."""
_MAX_VALUE_CHARS = 60
"""Maximum characters quoted from a cell."""


def make_fault(rule: str, where: str, expected: str, found: str, remedy: str = "") -> Fault:
    return Fault(
        rule, shorten_text(where), shorten_text(expected), shorten_text(found), remedy or REMEDIES.get(rule, "")
    )


def shorten_text(text: str) -> str:
    return make_printable(text if len(text) <= MAX_QUOTE_CHARS else text[: MAX_QUOTE_CHARS - 1] + "…")


def format_value(value: Shown) -> str:
    if value is None:
        return "nothing"
    return f"{value:.12g}" if isinstance(value, float) else quote_text(value)


def quote_text(text: str) -> str:
    """Quote the start of a cell's text, which the file chose."""
    return repr(text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…")


def format_error(value: Shown) -> str:
    """Format an error value; quote one that is not a known form."""
    text = str(value)
    return text if _ERROR.fullmatch(text) else quote_text(text)


def format_saved_value(cell: Cell) -> str:
    return format_error(cell.value) if cell.kind == "e" else format_value(cell.value)


def list_names(names: Iterable[str]) -> str:
    return ", ".join(map(quote_text, names)) or "none"
