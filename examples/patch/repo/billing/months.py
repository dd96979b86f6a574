"""When the next invoice is due."""

from __future__ import annotations

from calendar import monthrange
from datetime import date


def later(day: date, months: int) -> date:
    """Give the same day some months later; the last of the month where it has no such day."""
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))
