"""Tests of the order of a preflight, with a client whose pods are records."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from hotdesk.desk.pod import probe, probe_pods
from hotdesk.desk.pod.preflight import Addresses
from hotdesk.desk.pod.probe_pods import PREFLIGHT_LABEL, ProbedPool, build_probe_pod, run_preflight
from hotdesk.errors import HostError

pytestmark = pytest.mark.anyio
ADDRESSES = Addresses(("10.1.0.1", 3128), 3710, ("10.0.0.9", 6443))
POOL = ProbedPool("desks", "none", ["n1", "n2"], ADDRESSES, {"app": "desk"})


@dataclass
class Pods:
    """A client of Kubernetes whose network enforces the policy."""

    peer_ends: bool = False
    """Whether pods that only listen have ended once a probe has."""
    slow_seconds: float = 0.0
    """How long a deletion takes."""
    bodies: dict[str, Any] = field(default_factory=dict)
    probed: bool = False
    deleted: list[str] = field(default_factory=list)
    left: list[Any] = field(default_factory=list)
    """Pods of earlier preflights."""

    def find_table(self, name: str) -> list[list[object]]:
        table = json.loads(self.bodies[name]["spec"]["containers"][0]["command"][-1])["table"]
        return [list(row) for row in table]

    async def create_namespaced_pod(self, namespace: str, body: Any) -> None:
        self.bodies[body["metadata"]["name"]] = body

    async def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        is_probe = bool(self.find_table(name))
        self.probed |= is_probe
        ended = is_probe or (self.peer_ends and self.probed)
        return SimpleNamespace(
            status=SimpleNamespace(phase="Succeeded" if ended else "Running", pod_ip="10.2.0.1", pod_ips=[])
        )

    async def read_namespaced_pod_log(self, name: str, namespace: str, *, limit_bytes: int) -> str:
        is_control = self.bodies[name]["metadata"]["labels"][PREFLIGHT_LABEL] == "control"
        outcomes = {
            row[0]: probe.OPEN if row[4] or (is_control and row[3] != probe.PORT) else probe.SILENT
            for row in self.find_table(name)
        }
        return f"{probe.READY}\n{json.dumps(outcomes)}"

    async def list_namespaced_pod(self, namespace: str, *, label_selector: str) -> Any:
        assert label_selector == PREFLIGHT_LABEL
        return SimpleNamespace(items=self.left)

    async def delete_namespaced_pod(self, name: str, namespace: str, *, grace_period_seconds: int) -> None:
        await anyio.sleep(self.slow_seconds)
        self.deleted.append(name)


async def test_a_pool_that_enforces_the_policy_is_trusted_and_every_pod_removed() -> None:
    pods = Pods()
    report = await run_preflight(pods, POOL)
    assert report.faults == ()
    assert sorted(pods.deleted) == sorted(pods.bodies)
    assert len(pods.bodies) == 6


async def test_a_preflight_during_which_a_listening_pod_ended_proves_nothing() -> None:
    with pytest.raises(HostError, match="ended early"):
        await run_preflight(Pods(peer_ends=True), POOL)


async def test_pods_of_a_killed_agent_are_removed_and_those_of_another_preflight_stay() -> None:
    ages = {"stale": timedelta(hours=1), "young": timedelta(minutes=1)}
    left = [
        SimpleNamespace(metadata=SimpleNamespace(name=name, creation_timestamp=datetime.now(UTC) - age))
        for name, age in ages.items()
    ]
    pods = Pods(left=left)
    await run_preflight(pods, POOL)
    assert sorted(pods.deleted) == sorted(["stale", *pods.bodies])


@pytest.mark.slow
async def test_pods_are_removed_at_the_same_time() -> None:
    pods = Pods(slow_seconds=probe_pods.END_SECONDS / 4)
    await run_preflight(pods, POOL)
    assert len(pods.deleted) == 6


def test_a_pod_that_listens_stays_until_the_last_probe_must_have_ended() -> None:
    pod = build_probe_pod(POOL, "p", "n1", [], is_control=False)
    patience = json.loads(pod["spec"]["containers"][0]["command"][-1])["patience"]
    assert patience > 2 * probe_pods.START_SECONDS + probe_pods.PATIENCE_S
    assert pod["spec"]["activeDeadlineSeconds"] > patience + probe_pods.START_SECONDS
