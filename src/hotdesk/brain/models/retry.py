"""Retry policy for requests to providers: when, and after how long. Pure, except for the clock."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import mktime_tz, parsedate_tz

LONGEST_BACKOFF_S = 60.0
_OVERLOADED = (429, 502, 503, 504, 529)
_JITTER = 0.25
"""The largest share by which a backoff is shortened or lengthened, so that many workers do not ask at the same time."""


def is_passing(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether the same request may succeed later; the provider's own header takes precedence."""
    if (word := headers.get("x-should-retry")) in ("true", "false"):
        return word == "true"
    return status in (408, 409, 429) or status >= 500


def is_overload(status: int) -> bool:
    """Return whether a server has too much to do: waiting helps, while another error may last."""
    return status in _OVERLOADED


def find_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds a provider asks to wait, from milliseconds, seconds or a date, or `None` without a header."""
    with suppress(ValueError):
        if (text := headers.get("retry-after-ms")) is not None:
            return _clamp(float(text) / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    with suppress(ValueError):
        return _clamp(float(text))
    date = parsedate_tz(text)
    return None if date is None else _clamp(mktime_tz(date) - time.time())


def find_backoff(pause: float, tried: int, chance: float = 0.5) -> float:
    """Return the least seconds to wait: twice as long each time, more or less by `chance`, from 0 to 1."""
    return min(pause * float(2 ** min(tried, 30)), LONGEST_BACKOFF_S) * (1 + _JITTER * (2 * chance - 1))


def _clamp(seconds: float) -> float | None:
    return max(seconds, 0.0) if math.isfinite(seconds) else None
