"""Tests of the rate limit of share links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from hotdesk.api.e2b.ports.shares import Share
from hotdesk.api.e2b.ports.traffic import Traffic
from hotdesk.api.quotas import QuotaError
from hotdesk.api.settings import Serving


def test_each_link_has_its_own_rate_limit() -> None:
    traffic = Traffic(cast(Any, SimpleNamespace(serving=Serving(share_rate=0.1))))
    one, other = (Share(name * 12, 8000, 2_000_000_000) for name in "ab")
    traffic.pace(one)
    with pytest.raises(QuotaError, match=r"limited to 0\.1 requests a second") as refused:
        traffic.pace(one)
    assert refused.value.wait is not None
    assert 0 < refused.value.wait <= 10
    traffic.pace(other)


def test_many_other_links_do_not_reset_the_rate_of_one() -> None:
    traffic = Traffic(cast(Any, SimpleNamespace(serving=Serving(share_rate=0.1))))
    used_up = Share("used_up", 8000, 2_000_000_000)
    traffic.pace(used_up)
    for number in range(10_001):
        traffic.pace(Share(f"link-{number}", 8000, 2_000_000_000))
    with pytest.raises(QuotaError):
        traffic.pace(used_up)


def test_idle_links_take_no_memory() -> None:
    traffic = Traffic(cast(Any, SimpleNamespace(serving=Serving(share_rate=1e6))))
    for number in range(10_000):
        traffic.pace(Share(f"link-{number}", 8000, 2_000_000_000))
    assert len(traffic.paces) < 1000
