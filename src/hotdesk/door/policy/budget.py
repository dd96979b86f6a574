"""Byte and rate budgets of a rule: plain accounting; the caller supplies the clock."""

from __future__ import annotations

from hotdesk.brief.data import Rule
from hotdesk.brief.rules import format_size

WINDOW = 10.0
"""Seconds over which a rate is averaged."""


class RuleBudget:
    """One rule's remaining budget for one desk. Each method returns `None`, or why no more may pass."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.sent = 0
        self.received = 0
        self.burst = max(1.0, (rule.rate or 0.0) * WINDOW)
        self.tokens = self.burst
        self.at: float | None = None

    def check_request(self, now: float) -> str | None:
        """Check whether a request may begin at `now`, in seconds of a monotonic clock; count none."""
        if why := self.count_sent(0) or self.count_received(0):
            return why
        if self.rule.rate is None:
            return None
        passed = 0.0 if self.at is None else max(0.0, now - self.at)
        self.at = now if self.at is None else max(now, self.at)
        self.tokens = min(self.burst, self.tokens + passed * self.rule.rate)
        if self.tokens < 1.0:
            return f"more than {self.rule.rate:g} requests a second; wait {(1.0 - self.tokens) / self.rule.rate:.1f} s"
        return None

    def take_request(self, now: float) -> str | None:
        """Count one request at `now` if it may begin then."""
        if why := self.check_request(now):
            return why
        if self.rule.rate is not None:
            self.tokens -= 1.0
        return None

    def count_sent(self, size: int) -> str | None:
        self.sent += size
        return _describe_spent_limit("sent", self.sent, self.rule.up, size)

    def count_received(self, size: int) -> str | None:
        self.received += size
        return _describe_spent_limit("received", self.received, self.rule.down, size)


def _describe_spent_limit(what: str, total: int, most: int | None, size: int) -> str | None:
    """Explain that a total is over its limit, or return `None`; at the limit no new request may begin."""
    if most is None or total < most or (size and total == most):
        return None
    return f"the rule's limit of {format_size(most)} bytes {what} is used up"
