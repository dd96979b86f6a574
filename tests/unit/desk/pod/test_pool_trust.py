"""Tests of the trust in a pool: only a preflight that passed, and not long ago, gives it."""

from __future__ import annotations

import pytest

from hotdesk.desk.pod import pool_trust
from hotdesk.desk.pod.pool_trust import PoolTrust
from hotdesk.desk.pod.preflight import PreflightReport, ProbeRow, ProbeTarget
from hotdesk.errors import HostError

TESTED = ProbeRow("n1", ProbeTarget("the door", "10.0.0.1", 3720, is_allowed=True), "open", "open")
GOOD, BAD = (
    PreflightReport((TESTED,), ()),
    PreflightReport((), ("n1: the network policy is not enforced: a pod reaches DNS",)),
)


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

    def trust(self, *, accepts_open: bool = False) -> PoolTrust:
        return PoolTrust(self.run, self.logged.append, accepts_open=accepts_open)


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


async def test_an_open_network_is_used_only_if_the_operator_accepts_it_and_the_log_repeats_that() -> None:
    preflights = Preflights(BAD, BAD, GOOD)
    trust = preflights.trust(accepts_open=True)
    await trust.check()
    trust.require()
    trust.require_node("n9")
    assert trust.has_open_network
    assert not trust.is_refused
    await trust.check()
    [logged] = preflights.logged
    assert "accept_open_network" in str(logged)
    assert "a pod reaches DNS" in str(logged)
    await trust.check()
    assert not trust.has_open_network


async def test_a_node_that_no_preflight_included_is_not_trusted_and_the_next_preflight_comes_sooner() -> None:
    trust = Preflights(GOOD, BAD).trust()
    await trust.check()
    trust.require_node("n1")
    assert not trust.due.is_set()
    with pytest.raises(HostError, match="node 'n2' has not been tested yet"):
        trust.require_node("n2")
    assert trust.due.is_set()
    await trust.check()
    assert trust.is_refused
    with pytest.raises(HostError, match="node 'n1'"):
        trust.require_node("n1")


OPEN_NETWORK = PreflightReport(
    (TESTED, ProbeRow("n1", ProbeTarget("DNS", "10.0.0.2", 53), "open", "open")), ("n1: a pod reaches DNS",)
)


@pytest.mark.parametrize(
    ("results", "ends"),
    [
        ([GOOD, OPEN_NETWORK], []),
        ([GOOD, OPEN_NETWORK, GOOD, OPEN_NETWORK], []),
        ([GOOD, OPEN_NETWORK, OSError("away"), OPEN_NETWORK], ["its network is open: n1: a pod reaches DNS"]),
        ([GOOD, BAD, BAD], []),
        ([GOOD, OSError("away"), OSError("away")], []),
    ],
)
async def test_open_desks_end_when_a_second_preflight_in_a_row_finds_an_open_network(
    results: list[PreflightReport | Exception], ends: list[str]
) -> None:
    for accepts_open in (False, True):
        found: list[str] = []
        trust = Preflights(*results).trust(accepts_open=accepts_open)
        trust.on_open = found.append
        for _ in results:
            await trust.check()
        assert found == ([] if accepts_open else ends)
