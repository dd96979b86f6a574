"""Finds what the preflight needs to know of a pool: its nodes, and the addresses around its desks."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod.manifest import APP, APP_VALUE, Document, PodTemplate
from hotdesk.desk.pod.preflight import API_PORT, Addresses
from hotdesk.desk.pod.probe_pods import ProbedPool
from hotdesk.errors import HostError

CONTROL_LABELS = {APP: "hotdesk-preflight"}
"""Labels of control pods; no policy for desks selects them."""
_RESOLVER = Path("/etc/resolv.conf")


class NodeSource(Protocol):
    """What of a cluster is read; `KubernetesNamespace` has it."""

    @property
    def server(self) -> str: ...

    async def list_nodes(self, selector: str) -> list[Document]: ...


@dataclass(frozen=True, slots=True)
class PoolSearch:
    """Where the agent of a pool is, and how its pods are placed."""

    template: PodTemplate
    guests: tuple[str, int]
    """The address at which pods reach the agent; it carries the link and the door, and is all that a desk may reach."""
    other_port: int
    """Another port of the agent on which it listens."""
    nodes: Mapping[str, str]
    """The addresses of the nodes by name; empty: the API server is asked."""

    async def find_pool(self, source: NodeSource) -> ProbedPool:
        """Return the pool as it is now; `HostError` if it has no node."""
        nodes = dict(self.nodes) or await self.list_nodes(source)
        template = self.template
        key, value = template.tolerated
        addresses = Addresses(
            self.guests, self.other_port, await find_server(source.server), nodes, find_resolver(_RESOLVER.read_text())
        )
        return ProbedPool(
            template.namespace, template.image, tuple(nodes), addresses, {APP: APP_VALUE}, CONTROL_LABELS,
            [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}],
            template.runtime_class, template.python, template.pull_policy,
        )  # fmt: skip

    async def list_nodes(self, source: NodeSource) -> dict[str, str]:
        selector = ",".join(f"{name}={value}" for name, value in self.template.node_selector.items())
        try:
            listed = await source.list_nodes(selector)
        except HostError as e:
            raise HostError(
                f"{e}; give the agent the ClusterRole of deploy/pods, or name the nodes in `[pods] nodes`"
            ) from e
        if not (nodes := parse_nodes(listed)):
            raise HostError(f"no node that is ready has the labels {selector}; label the nodes for desks")
        return nodes


def parse_nodes(listed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the addresses of the nodes that are ready, by name. A pod on any other node is not accepted."""
    found: dict[str, str] = {}
    for node in listed:
        status = node.get("status") or {}
        is_ready = any(
            each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or []
        )
        for each in status.get("addresses") or []:
            if is_ready and each.get("type") == "InternalIP":
                found.setdefault(str(node["metadata"]["name"]), str(ip_address(each["address"])))
    return found


async def find_server(url: str) -> tuple[str, int]:
    """Return address and port of the API server; probes resolve no names."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or API_PORT
    try:
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as e:
        raise HostError(f"the name {host!r} of the API server cannot be resolved ({e.strerror})") from e
    return str(found[0][4][0]), port


def find_resolver(text: str) -> str:
    """Return the address of the cluster's DNS, as a pod's resolv.conf has it; empty if there is none for other pods."""
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "nameserver" and not ip_address(value.strip()).is_loopback:
            return str(ip_address(value.strip()))
    return ""
