"""ACME renewal times: well before expiry, with back-off after failures. No I/O.

The attempts are stored in a file, so that restarting the server does not increase the rate of requests.
"""

from __future__ import annotations

from hotdesk.dataclass import dataclass

FIRST_RETRY_S = 60.0
MAX_RETRY_S = 6 * 3600.0
CHECK_INTERVAL_S = 3600.0
RENEW_AT = 2 / 3
"""The fraction of a certificate's life after which it is renewed."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Failed attempts so far."""

    failures: int = 0
    next_at: float = 0.0
    """When the next attempt may begin, as Unix time."""

    def fail(self, now: float) -> Attempts:
        pause = min(MAX_RETRY_S, FIRST_RETRY_S * 2 ** min(self.failures, 16))
        return Attempts(self.failures + 1, now + pause)


def is_due(now: float, begins: float, ends: float, attempts: Attempts, *, covers: bool) -> bool:
    """Return whether to request a certificate now; `covers` tells whether the current one has the right names."""
    if now < attempts.next_at and attempts.next_at - now <= MAX_RETRY_S:
        return False
    return not covers or now >= begins + (ends - begins) * RENEW_AT


def pause_until_next(now: float, begins: float, ends: float, attempts: Attempts, *, covers: bool) -> float:
    if now < attempts.next_at:
        return min(MAX_RETRY_S, max(1.0, attempts.next_at - now))
    if not covers:
        return 1.0
    return min(CHECK_INTERVAL_S, max(1.0, begins + (ends - begins) * RENEW_AT - now))
