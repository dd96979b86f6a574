"""Quotas and rate limits of tenants, counted before anything is opened.

Counting never waits, so that concurrent requests cannot exceed a quota: `take` reserves everything or nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from hotdesk.config import SIZE, count, make_number_hint, read_settings
from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HotdeskError

Kind = Literal["desks", "jobs", "cpus", "memory", "disk"]
_Paced = Literal["rate", "calls"]
ASKS: Mapping[_Paced, str] = {"rate": "requests", "calls": "requests to its sandboxes"}
WORDS: Mapping[str, str] = {
    "desks": "desks at once",
    "jobs": "running jobs",
    "cpus": "processors",
    "memory": "bytes of memory",
    "disk": "bytes of disk",
}


class QuotaError(HotdeskError):
    """The quota is used up, or requests are too fast; `wait` is in seconds, `None` if waiting does not help."""

    code = "quota"

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of a response with status 429."""
        if self.wait is None:
            return {"Should-Retry": "false"}
        return {"Retry-After": str(max(1, math.ceil(self.wait)))}


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one tenant; `None` means unlimited."""

    desks: int | None = None
    jobs: int | None = None
    """Jobs that run at once."""
    cpus: float | None = None
    memory: int | None = None
    disk: int | None = None
    rate: float | None = None
    """Requests a second of its keys and of browsers that signed in; twice as many may come in a burst."""
    calls: float | None = None
    """Requests a second into its sandboxes, to envd or to ports inside; a stream is one, however long it lasts."""


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The tenants' limits, as the operator wrote them."""

    usual: Quota = Quota()
    own: Mapping[str, Quota] = field(default_factory=dict)
    """Quotas of tenants that have their own."""


@dataclass(slots=True)
class Bucket:
    """A tenant's token bucket: requests it may still send."""

    tokens: float
    at: float

    def draw(self, rate: float, now: float) -> float:
        """Take one token; return the seconds until one is available, or 0 if one was."""
        self.tokens, self.at = self.count(rate, now), now
        if self.tokens < 1:
            return (1 - self.tokens) / rate
        self.tokens -= 1
        return 0.0

    def count(self, rate: float, now: float) -> float:
        return min(get_burst(rate), self.tokens + (now - self.at) * rate)

    def is_full(self, rate: float, now: float) -> bool:
        """Return whether nothing is lost if the bucket is forgotten."""
        return self.count(rate, now) >= get_burst(rate)


def get_burst(rate: float) -> float:
    """Return how many requests may come at once."""
    return max(1.0, 2 * rate)


@dataclass(slots=True)
class QuotaShare:
    """A tenant's reserved share of its quota."""

    quotas: Quotas
    tenant: str
    amounts: dict[str, float]
    freed: bool = False

    def free(self) -> None:
        """Give the share back; calling it again has no effect."""
        if not self.freed:
            self.freed = True
            self.quotas.give_back(self.tenant, self.amounts)


@dataclass(slots=True)
class Quotas:
    limits: QuotaLimits = field(default_factory=QuotaLimits)
    clock: Callable[[], float] = time.monotonic
    used: dict[str, dict[str, float]] = field(default_factory=dict)
    buckets: dict[tuple[str, _Paced], Bucket] = field(default_factory=dict)

    def of(self, tenant: str) -> Quota:
        return self.limits.own.get(tenant, self.limits.usual)

    def has(self, tenant: str, kind: Kind) -> float:
        return self.used.get(tenant, {}).get(kind, 0.0)

    def fits(self, tenant: str, **amounts: float) -> bool:
        quota, have = self.of(tenant), self.used.get(tenant, {})
        limits = ((getattr(quota, kind), have.get(kind, 0.0) + amount) for kind, amount in amounts.items())
        return all(most is None or total <= most for most, total in limits)

    def take(self, tenant: str, **amounts: float) -> QuotaShare:
        """Reserve a share for a tenant; `QuotaError` if any amount exceeds the quota, and then nothing is reserved."""
        quota = self.of(tenant)
        have = self.used.setdefault(tenant, {})
        for kind, amount in amounts.items():
            most = getattr(quota, kind)
            if most is not None and have.get(kind, 0.0) + amount > most:
                raise QuotaError(_explain_excess(tenant, kind, have.get(kind, 0.0), amount, most))
        return self.count(tenant, **amounts)

    def count(self, tenant: str, **amounts: float) -> QuotaShare:
        have = self.used.setdefault(tenant, {})
        for kind, amount in amounts.items():
            have[kind] = have.get(kind, 0.0) + amount
        return QuotaShare(self, tenant, dict(amounts))

    def give_back(self, tenant: str, amounts: Mapping[str, float]) -> None:
        have = self.used[tenant]
        for kind, amount in amounts.items():
            have[kind] = max(0.0, have[kind] - amount)

    def ask(self, tenant: str, kind: _Paced = "rate") -> None:
        """Count a request against a rate limit; `QuotaError` if requests come too fast."""
        rate: float | None = getattr(self.of(tenant), kind)
        if rate is None:
            return
        now = self.clock()
        bucket = self.buckets.setdefault((tenant, kind), Bucket(get_burst(rate), now))
        if (wait := bucket.draw(rate, now)) > 0:
            raise QuotaError(f"tenant {tenant} is limited to {rate:g} {ASKS[kind]} a second; wait {wait:.1f} s", wait)


def _explain_excess(tenant: str, kind: str, has: float, requested: float, most: float) -> str:
    what = WORDS[kind]
    if requested > most:
        return f"{requested:.15g} {what} exceed the quota of tenant {tenant}, which is {most:.15g}; request less"
    return (
        f"tenant {tenant} uses {has:.15g} of its quota of {most:.15g} {what} and requests {requested:.15g} more; "
        "end desks or jobs, or ask the operator for a larger quota"
    )


def read(name: str, table: object) -> QuotaLimits:
    """Read `[serve.quota]`: every tenant's quota, and tables for tenants that have their own."""
    if not isinstance(table, dict):
        raise BriefError(f"the setting {name} is not a table; write [{name}] and its settings below")
    values = {key: value for key, value in table.items() if not isinstance(value, dict)}
    usual = Quota(**read_settings(name, values, SETTINGS))
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    own = {key: read_settings(f"{name}.{key}", value, SETTINGS) for key, value in tables.items()}
    return QuotaLimits(usual, {key: replace(usual, **value) for key, value in own.items()})


SETTINGS: Mapping[str, Any] = {
    "desks": count(0, 1e6),
    "jobs": count(0, 1e6),
    "cpus": make_number_hint(0.01, 1e6),
    "memory": SIZE,
    "disk": SIZE,
    "rate": make_number_hint(0.01, 1e6),
    "calls": make_number_hint(0.01, 1e6),
}
"""The settings of `[serve.quota]`."""
