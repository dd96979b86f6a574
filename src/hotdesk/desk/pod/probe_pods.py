"""Runs the probes of the preflight as pods, with a client of Kubernetes; their output is as untrusted as a desk's."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod import preflight, probe
from hotdesk.desk.pod.preflight import Addresses, PreflightReport, ProbeRow, ProbeTarget
from hotdesk.errors import HostError

PREFLIGHT_LABEL = "hotdesk/preflight"
"""On every pod of a preflight; its value is `desk` for those to which the policy applies, or `control`."""
START_SECONDS, PATIENCE_S, POLL_S, END_SECONDS = 60.0, 20.0, 0.5, 10.0
_LISTEN_SECONDS = 2 * START_SECONDS + PATIENCE_S + 40
"""Seconds a pod that only listens stays: other pods may start late, and their probes later still."""
_MAX_POD_SECONDS = int(START_SECONDS + _LISTEN_SECONDS) + 60
_STALE_SECONDS = _MAX_POD_SECONDS + START_SECONDS
"""Seconds after which a pod of a preflight belongs to none that runs: its agent was killed."""
_PROGRAM = Path(probe.__file__)
_SIZE = {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "16Mi"}
"""A quota for these resources, such as that of `deploy/pods`, admits no pod without them."""


class PodClient(Protocol):
    """What of a client of Kubernetes is used; `CoreV1Api` of `kubernetes.aio` has it."""

    async def create_namespaced_pod(self, namespace: str, body: Any) -> Any: ...

    async def read_namespaced_pod(self, name: str, namespace: str) -> Any: ...

    async def read_namespaced_pod_log(self, name: str, namespace: str, *, limit_bytes: int) -> Any: ...

    async def list_namespaced_pod(self, namespace: str, *, label_selector: str) -> Any: ...

    async def delete_namespaced_pod(self, name: str, namespace: str, *, grace_period_seconds: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class ProbedPool:
    """A pool of nodes, and what pods in it are like."""

    namespace: str
    image: str
    """An image with Python 3.10 or newer."""
    nodes: Sequence[str]
    addresses: Addresses
    labels: Mapping[str, str]
    """The labels by which the policy selects desks."""
    control_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that no policy selects."""
    tolerations: Sequence[Mapping[str, str]] = ()
    runtime_class: str = ""
    python: str = "/usr/bin/python3"
    pull: str = "IfNotPresent"


def build_probe_pod(
    pool: ProbedPool, name: str, node: str, table: Sequence[ProbeTarget], *, is_control: bool
) -> dict[str, Any]:
    """Return a probe pod: restricted, without a token, bound to a node, and ended by Kubernetes if it is forgotten."""
    order = json.dumps(
        {"table": [each.list_fields() for each in table], "patience": PATIENCE_S if table else _LISTEN_SECONDS}
    )
    labels = pool.control_labels if is_control else pool.labels
    spec: dict[str, Any] = {
        "nodeName": node,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _MAX_POD_SECONDS,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [dict(each) for each in pool.tolerations],
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65534, "runAsGroup": 65534, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "probe",
            "image": pool.image,
            "imagePullPolicy": pool.pull,
            "command": [pool.python, "-I", "-B", "-c", _PROGRAM.read_text(), order],
            "resources": {kind: dict(_SIZE) for kind in ("requests", "limits")},
            "securityContext": {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            },
        }],
    }  # fmt: skip
    if pool.runtime_class:
        spec["runtimeClassName"] = pool.runtime_class
    labels = {**labels, PREFLIGHT_LABEL: "control" if is_control else "desk"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


class _Probes:
    """The pods of one preflight."""

    def __init__(self, client: PodClient, pool: ProbedPool) -> None:
        self.client = client
        self.pool = pool
        self.prefix = f"hotdesk-preflight-{secrets.token_hex(4)}"
        self.names: list[str] = []

    async def create(self, node: str, table: Sequence[ProbeTarget], *, is_control: bool = False) -> str:
        name = f"{self.prefix}-{len(self.names)}"
        self.names.append(name)
        body = build_probe_pod(self.pool, name, node, table, is_control=is_control)
        await self.client.create_namespaced_pod(self.pool.namespace, body)
        return name

    async def read(self, name: str) -> str:
        found = await self.client.read_namespaced_pod_log(
            name, self.pool.namespace, limit_bytes=preflight.MAX_OUTPUT_BYTES
        )
        return str(found or "")[: preflight.MAX_OUTPUT_BYTES]

    async def wait_listening(self, name: str) -> list[str]:
        """Wait until a pod that only listens does; return its addresses."""
        with anyio.fail_after(START_SECONDS):
            while True:
                status = (await self.client.read_namespaced_pod(name, self.pool.namespace)).status
                if status.phase == "Running" and status.pod_ip and probe.READY in await self.read(name):
                    more = [str(each.ip) for each in status.pod_ips or [] if each.ip != status.pod_ip]
                    return [str(status.pod_ip), *more]
                self.require_alive(name, status.phase)
                await anyio.sleep(POLL_S)

    async def wait_outcomes(self, name: str, table: Sequence[ProbeTarget]) -> dict[str, str]:
        """Wait until a probe ended; return what it found out."""
        with anyio.fail_after(START_SECONDS + PATIENCE_S):
            while True:
                status = (await self.client.read_namespaced_pod(name, self.pool.namespace)).status
                if status.phase == "Succeeded":
                    return preflight.parse_outcomes(await self.read(name), table)
                self.require_alive(name, status.phase, ("Failed",))
                await anyio.sleep(POLL_S)

    async def require_listening(self, name: str) -> None:
        """Raise `HostError` if a pod no longer listens: what a probe then cannot reach shows nothing."""
        self.require_alive(name, (await self.client.read_namespaced_pod(name, self.pool.namespace)).status.phase)

    def require_alive(self, name: str, phase: object, ended: Sequence[str] = ("Failed", "Succeeded")) -> None:
        if phase in ended:
            raise HostError(f"probe pod {name} in namespace {self.pool.namespace} ended early; read its log")

    async def remove(self) -> None:
        async with anyio.create_task_group() as group:
            for name in self.names:
                group.start_soon(self.delete, name)

    async def delete(self, name: str) -> None:
        with suppress(Exception):  # any error of any client; the pod ends by its own deadline
            await self.client.delete_namespaced_pod(name, self.pool.namespace, grace_period_seconds=1)


@asynccontextmanager
async def _probes(client: PodClient, pool: ProbedPool) -> AsyncIterator[_Probes]:
    """Yield the pods of one preflight, and remove them at the end."""
    probes = _Probes(client, pool)
    try:
        yield probes
    finally:
        with anyio.move_on_after(END_SECONDS, shield=True):
            await probes.remove()


async def _remove_stale(client: PodClient, namespace: str) -> None:
    """Remove the pods that agents left when they were killed."""
    with suppress(Exception):  # any error of any client; the preflight itself reports what is wrong
        found = await client.list_namespaced_pod(namespace, label_selector=PREFLIGHT_LABEL)
        before = datetime.now(UTC) - timedelta(seconds=_STALE_SECONDS)
        for name in [each.metadata.name for each in found.items if each.metadata.creation_timestamp < before]:
            await client.delete_namespaced_pod(name, namespace, grace_period_seconds=1)


async def run_preflight(client: PodClient, pool: ProbedPool) -> PreflightReport:
    """Test a pool, with three pods on each node; `HostError` if that cannot be done."""
    await _remove_stale(client, pool.namespace)
    rows: dict[str, list[ProbeRow]] = {}
    peers: dict[str, list[str]] = {}
    names: list[str] = []
    try:
        async with _probes(client, pool) as probes:
            async with anyio.create_task_group() as group:
                for node in pool.nodes:
                    group.start_soon(_start_peer, probes, node, peers, names)
            async with anyio.create_task_group() as group:
                for node in pool.nodes:
                    group.start_soon(_probe_node, probes, node, peers, rows)
            for name in names:
                await probes.require_listening(name)
    except BaseExceptionGroup as group_error:
        raise _find_first(group_error, pool.namespace) from None
    return preflight.judge([row for node in pool.nodes for row in rows[node]], pool.nodes)


def _find_first(error: BaseException, namespace: str) -> BaseException:
    """Return the first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return HostError(f"a probe pod in namespace {namespace} did not run within its time; read its events")
    return error


async def _start_peer(probes: _Probes, node: str, peers: dict[str, list[str]], names: list[str]) -> None:
    name = await probes.create(node, [])
    peers[node] = await probes.wait_listening(name)
    names.append(name)


async def _probe_node(
    probes: _Probes, node: str, peers: Mapping[str, Sequence[str]], rows: dict[str, list[ProbeRow]]
) -> None:
    table = preflight.add_peers(preflight.build_table(probes.pool.addresses, node), node, peers)
    control = await probes.create(node, table, is_control=True)
    probed = await probes.wait_outcomes(await probes.create(node, table), table)
    rows[node] = preflight.make_rows(node, table, probed, await probes.wait_outcomes(control, table))
