"""Attacks of pods on a cluster whose network does not enforce the policy of desks: the preflight must refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.desk.pod import preflight
from hotdesk.desk.pod.probe_pods import run_preflight
from hotdesk.errors import HostError
from tests.pod_network import POOL, pod_network
from tests.security.guards import Removal, falls_without, no_guard

pytestmark = [pytest.mark.container, pytest.mark.timeout(240)]
JUDGE = "pod/preflight.py"


@no_guard("the control of the attacks below: a network that enforces the policy must pass")
async def test_a_network_that_enforces_the_policy_is_trusted(tmp_path: Path) -> None:
    with pod_network(tmp_path, enforces=True) as network:
        report = await run_preflight(network, POOL)
        preflight.require_trusted(report)
        seen = {(row.target.name, row.is_reached) for row in report.rows if row.node == "n2"}
    assert ("the door", True) in seen
    assert ("the kubelet of n1", False) in seen
    assert sum(reached for _, reached in seen) == 1
    assert len(seen) == 12


@falls_without(
    "preflight: a network without enforcement",
    Removal(JUDGE, "if row.is_reached and not row.target.is_allowed]", "if row.is_reached is None]"),
    Removal(JUDGE, "elif not any(row.is_proof for row in own):", "elif not own:"),
)
async def test_a_network_that_ignores_the_policy_is_refused_with_what_a_pod_reaches(tmp_path: Path) -> None:
    with pod_network(tmp_path, enforces=False) as network:
        report = await run_preflight(network, POOL)
        with pytest.raises(HostError, match="n1: the network policy is not enforced") as caught:
            preflight.require_trusted(report)
        for name in ("the API server", "the kubelet of n1", "pod on another node", "DNS", "the cloud's metadata"):
            assert name in str(caught.value)


@falls_without(
    "preflight: a policy that admits connections into desks",
    Removal(JUDGE, "exposed = [row.target.name for row in own if row.is_exposed]", "exposed = list[str]()"),
)
async def test_a_network_in_which_others_connect_into_desks_is_refused(tmp_path: Path) -> None:
    with pod_network(tmp_path, enforces=True, admits=True) as network:
        report = await run_preflight(network, POOL)
    assert [fault.partition(";")[0] for fault in report.faults] == [
        f"{node}: the network policy admits connections into desks: a pod without it reaches "
        "pod on this node, pod on another node"
        for node in ("n1", "n2")
    ]


@falls_without(
    "preflight: a network that connects nothing",
    Removal(JUDGE, "elif not any(row.is_proof for row in own):", "elif not own:"),
)
async def test_a_network_in_which_no_pod_reaches_anything_is_no_proof(tmp_path: Path) -> None:
    with pod_network(tmp_path, enforces=True) as network:
        door = POOL.addresses.door[0]
        ways = [
            f"rule add pref 90 to {door} ipproto tcp dport 3128 lookup main",
            f"rule add pref 91 from {door} lookup main",
        ]
        network.configure("router", *ways, "rule add pref 102 blackhole")
        report = await run_preflight(network, POOL)
    assert ["nothing shows" in each for each in report.faults] == [True, True]
