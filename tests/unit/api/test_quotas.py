"""Tests of tenant quotas: amounts are counted completely or not at all, and returned once."""

from __future__ import annotations

import pytest

from hotdesk.api import quotas
from hotdesk.api.quotas import Quota, QuotaError, QuotaLimits, Quotas
from hotdesk.errors import BriefError


def limited(**most: float) -> Quotas:
    return Quotas(QuotaLimits(Quota(**most)))  # type: ignore[arg-type]


def test_an_amount_counts_until_it_is_returned_once() -> None:
    counted = limited(desks=1)
    taken = counted.take("acme", desks=1)
    with pytest.raises(QuotaError, match="uses 1 of its quota of 1 desks at once"):
        counted.take("acme", desks=1)
    taken.free()
    taken.free()
    counted.take("acme", desks=1)
    with pytest.raises(QuotaError):
        counted.take("acme", desks=1)


def test_a_refused_request_takes_nothing_of_any_quota() -> None:
    counted = limited(desks=5, memory=100)
    with pytest.raises(QuotaError):
        counted.take("acme", desks=1, memory=101)
    assert counted.has("acme", "desks") == 0


def test_one_tenant_does_not_use_up_anothers_quota() -> None:
    counted = limited(jobs=1, rate=1)
    counted.take("acme", jobs=1)
    counted.take("other", jobs=1)
    for _ in range(2):
        counted.ask("acme")
    with pytest.raises(QuotaError):
        counted.ask("acme")
    counted.ask("other")


def test_a_burst_cannot_exceed_the_quota() -> None:
    counted = limited(desks=10)
    got = 0
    for _ in range(100):
        try:
            counted.take("acme", desks=1)
            got += 1
        except QuotaError:
            pass
    assert got == 10


def test_api_requests_and_sandbox_requests_are_counted_separately() -> None:
    counted = limited(rate=1, calls=2)
    for _ in range(2):
        counted.ask("acme")
    with pytest.raises(QuotaError, match="limited to 1 requests a second"):
        counted.ask("acme")
    for _ in range(4):
        counted.ask("acme", "calls")
    with pytest.raises(QuotaError, match="2 requests to its sandboxes a second") as late:
        counted.ask("acme", "calls")
    assert late.value.headers == {"Retry-After": "1"}
    Quotas().ask("acme", "calls")


def test_requests_that_come_too_fast_are_told_how_long_to_wait() -> None:
    now = [0.0]
    counted = Quotas(QuotaLimits(Quota(rate=2)), clock=lambda: now[0])
    for _ in range(4):
        counted.ask("acme")
    with pytest.raises(QuotaError) as refused:
        counted.ask("acme")
    assert refused.value.headers == {"Retry-After": "1"}
    now[0] = 0.5
    counted.ask("acme")


def test_a_refusal_that_waiting_does_not_help_is_not_retryable() -> None:
    with pytest.raises(QuotaError, match="exceed the quota of tenant acme") as refused:
        limited(cpus=2).take("acme", cpus=3)
    assert refused.value.headers == {"Should-Retry": "false"}


def test_a_tenants_own_table_overrides_only_its_fields() -> None:
    read = quotas.read("serve.quota", {"desks": 10, "memory": "8G", "acme": {"desks": 50}})
    counted = Quotas(read)
    assert counted.of("acme") == Quota(desks=50, memory=8 << 30)
    assert counted.of("other") == Quota(desks=10, memory=8 << 30)


@pytest.mark.parametrize(
    "table", [3, {"desk": 1}, {"desks": -1}, {"desks": "many"}, {"acme": {"rats": 1}}, {"rate": 0}], ids=str
)
def test_an_invalid_quota_is_refused(table: object) -> None:
    with pytest.raises(BriefError, match="quota"):
        quotas.read("serve.quota", table)
