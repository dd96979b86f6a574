"""Tests of the trust in a pool: only a preflight that passed, and not long ago, gives it."""

from __future__ import annotations

import pytest

from hotdesk.desk.pod import pool_trust
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport
from hotdesk.errors import HostError

GOOD, BAD = PreflightReport((), ()), PreflightReport((), ("n1: the network policy is not enforced: a pod reaches DNS",))


class Preflights:
    """Preflights with these results, one after another."""

    def __init__(self, *results: PreflightReport | Exception) -> None:
        self.results = list(results)
        self.logged: list[Exception] = []

    async def run(self) -> PreflightReport:
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def trust(self) -> PoolTrust:
        return PoolTrust(self.run, self.logged.append)


def test_a_pool_that_was_not_tested_is_not_trusted() -> None:
    with pytest.raises(HostError, match="has not been tested yet"):
        Preflights().trust().require()


async def test_a_pool_is_trusted_until_a_preflight_fails_and_again_after_one_that_passes() -> None:
    preflights = Preflights(GOOD, BAD, GOOD)
    trust = preflights.trust()
    await trust.check()
    trust.require()
    await trust.check()
    with pytest.raises(HostError, match="not enforced: a pod reaches DNS"):
        trust.require()
    assert len(preflights.logged) == 1
    await trust.check()
    trust.require()


async def test_a_preflight_that_cannot_be_done_ends_the_trust() -> None:
    preflights = Preflights(GOOD, OSError("the API server\x1b[2J does not answer"))
    trust = preflights.trust()
    await trust.check()
    await trust.check()
    with pytest.raises(HostError, match="does not answer") as caught:
        trust.require()
    assert "\x1b" not in str(caught.value)


async def test_a_preflight_that_is_too_old_gives_no_trust() -> None:
    trust = Preflights(GOOD).trust()
    await trust.check()
    assert trust.passed is not None
    trust.passed -= pool_trust.MAX_AGE_S + 1
    with pytest.raises(HostError, match="more than 90 minutes ago"):
        trust.require()
