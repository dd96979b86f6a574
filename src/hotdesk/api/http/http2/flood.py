"""Limits on HTTP/2 frames that cost more to answer than to send: resets, pings, settings, empty frames.

Every such frame takes from a budget that refills over time; progress (a request, bytes that the client accepts) adds to
it. So a client may send two window updates for each frame it received, and cannot send a million for nothing. No I/O.
"""

from __future__ import annotations

from hotdesk.dataclass import dataclass

MAX_CREDIT = 2000.0
REFILL_PER_S = 200.0
PER_REQUEST = 8.0
PER_DATA_FRAME = 4.0
MAX_RESETS = 100.0
"""Requests that a client may cancel at once."""
RESETS_PER_S = 10.0


@dataclass(slots=True)
class FloodBudget:
    """A connection's remaining budget for costly frames."""

    at: float
    credit: float = MAX_CREDIT
    resets: float = MAX_RESETS

    def refill(self, now: float) -> None:
        passed, self.at = max(0.0, now - self.at), now
        self.credit = min(MAX_CREDIT, self.credit + passed * REFILL_PER_S)
        self.resets = min(MAX_RESETS, self.resets + passed * RESETS_PER_S)

    def add_credit(self, amount: float) -> None:
        self.credit = min(MAX_CREDIT, self.credit + amount)

    def spend(self) -> None:
        """Charge for a frame that needs an answer, or costs only time."""
        self.credit -= 1

    def spend_reset(self) -> None:
        self.resets -= 1

    @property
    def is_spent(self) -> bool:
        return self.credit < 0 or self.resets < 0
