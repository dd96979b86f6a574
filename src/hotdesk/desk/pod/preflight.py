"""Tests that a cluster enforces the network policy of desks, before a pool of nodes is used, and hourly after.

A cluster whose network plug-in ignores NetworkPolicy accepts the objects and enforces nothing. On each node a probe
pod, to which the policy applies as to a desk, tries a table of addresses; a control pod without the policy tries them
as well. `judge` decides: the pool is trusted if probes reach the door and nothing else, and control pods do reach
something else, so that it is the policy that makes the difference; but they reach no pod to which the policy applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.desk.pod import probe
from hotdesk.errors import HostError, make_printable

METADATA = "169.254.169.254"
PUBLIC, PUBLIC_V6 = "1.1.1.1", "2606:4700:4700::1111"
API_PORT, KUBELET_PORT, DNS_PORT = 443, 10250, 53
MAX_OUTPUT_BYTES = 64 << 10
MAX_TARGETS = 64
"""Addresses in the table of one probe; a larger pool's kubelets are sampled."""
REFUSAL = "no desk is opened in this pool"
PEERS = ("pod on this node", "pod on another node")
_FAMILIES = {4: "IPv4", 6: "IPv6"}
_OUTCOMES = frozenset(probe.WORST_FIRST)


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """An address that a probe tries."""

    name: str
    host: str
    port: int
    kind: Literal["tcp", "dns"] = "tcp"
    is_allowed: bool = False
    """Whether the policy must admit it; the door is the only such address."""
    is_listening: bool = False
    """Whether something surely listens there, so that a refusal is the policy's and not that of an unused port."""
    is_protected: bool = False
    """Whether it is a pod with the desks' labels, into which nobody may connect, policy or not."""

    def list_fields(self) -> list[object]:
        """Return what the probe's program gets."""
        return [self.name, self.kind, self.host, self.port, self.is_allowed]


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses that matter in one cluster."""

    door: tuple[str, int]
    """The only address that a desk may reach."""
    door_other_port: int
    """Another port at the door's address on which something listens."""
    api_server: tuple[str, int]
    kubelets: Mapping[str, str] = field(default_factory=dict)
    """The address of each node, by name."""
    dns: str = ""
    """The address of the cluster's DNS, if there is one."""
    metadata: str = METADATA
    public: str = PUBLIC
    public_v6: str = PUBLIC_V6
    public_port: int = API_PORT


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """What one probe found out about one address."""

    node: str
    target: ProbeTarget
    outcome: str
    control: str
    """The outcome for the control pod of that node; empty if it did not try."""

    @property
    def is_reached(self) -> bool:
        """Return whether packets of the probe reach the address.

        A refusal is an answer from there, unless something listens there: then the policy gave it. That the control
        pod was refused as well shows that nothing listens, or that something else refuses. The door must be open.
        """
        if self.target.is_allowed:
            return self.outcome == probe.OPEN
        if self.outcome == probe.REFUSED:
            return self.control == probe.REFUSED or not (self.target.is_listening or self.control == probe.OPEN)
        return self.outcome in (probe.OPEN, probe.FAILED)

    @property
    def is_proof(self) -> bool:
        """Return whether the policy, and nothing else, keeps the probe from the address.

        A protected pod is no proof: it must be out of the control pod's reach as well.
        """
        is_closed = not (self.target.is_allowed or self.target.is_protected or self.is_reached)
        return is_closed and self.control == probe.OPEN

    @property
    def is_exposed(self) -> bool:
        """Return whether a pod without the policy connects into one that has it."""
        return self.target.is_protected and self.control in (probe.OPEN, probe.FAILED)


@dataclass(frozen=True, slots=True)
class PreflightReport:
    """The whole table, and why the pool is refused; it is trusted if there is no such reason."""

    rows: tuple[ProbeRow, ...]
    faults: tuple[str, ...]

    @property
    def is_trusted(self) -> bool:
        return not self.faults

    @property
    def is_open(self) -> bool:
        """Return whether desks reach, or are reached by, what they must not."""
        return any(row.is_exposed or (row.is_reached and not row.target.is_allowed) for row in self.rows)

    def format(self) -> str:
        """Return the table as text."""
        lines = [("node", "address", "", "desk", "without policy", "")]
        for row in self.rows:
            address = f"{row.target.host}:{row.target.port}"
            right = row.target.is_allowed == row.is_reached and not row.is_exposed
            verdict = "right" if right else "WRONG"
            lines.append((row.node, row.target.name, address, row.outcome, row.control or "-", verdict))
        widths = [max(len(line[column]) for line in lines) for column in range(6)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def build_table(addresses: Addresses, node: str) -> list[ProbeTarget]:
    """Return the addresses that the probe of a node tries, without those of other probes."""
    door, port = addresses.door
    table = [
        ProbeTarget("the door", door, port, is_allowed=True, is_listening=True),
        ProbeTarget("another port of the door", door, addresses.door_other_port, is_listening=True),
        ProbeTarget("the API server", *addresses.api_server, is_listening=True),
        ProbeTarget("the cloud's metadata", addresses.metadata, 80),
        ProbeTarget("a public address", addresses.public, addresses.public_port),
        ProbeTarget("a public address of IPv6", addresses.public_v6, addresses.public_port),
    ]
    if addresses.dns:
        table.append(ProbeTarget("DNS", addresses.dns, DNS_PORT, "dns"))
        table.append(ProbeTarget("DNS over TCP", addresses.dns, DNS_PORT))
    if node in addresses.kubelets:
        table.append(ProbeTarget("this node's kubelet", addresses.kubelets[node], KUBELET_PORT, is_listening=True))
    others = [name for name in sorted(addresses.kubelets) if name != node][: MAX_TARGETS - len(table) - 2 * len(PEERS)]
    table += [
        ProbeTarget(f"the kubelet of {name}", addresses.kubelets[name], KUBELET_PORT, is_listening=True)
        for name in others
    ]
    return table


def add_peers(table: Sequence[ProbeTarget], node: str, peers: Mapping[str, Sequence[str]]) -> list[ProbeTarget]:
    """Add the pods that listen, one on the probe's node and one on another; `peers` has their addresses by node.

    Where pods have addresses of IPv4 and IPv6, both are tried.
    """
    others = sorted(name for name in peers if name != node)
    chosen = [(PEERS[0], node)] * (node in peers) + [(PEERS[1], name) for name in others[:1]]
    pods = [
        ProbeTarget(
            f"{name} by {_FAMILIES[address.version]}" if number else name, str(address), probe.PORT,
            is_listening=True, is_protected=True,
        )
        for name, place in chosen
        for number, address in enumerate(map(ip_address, peers[place][:2]))
    ]  # fmt: skip
    return [*table, *pods]


def parse_outcomes(output: str, table: Sequence[ProbeTarget]) -> dict[str, str]:
    """Return what a probe printed; `HostError` unless it has one known outcome for each address of its table."""
    lines = output[:MAX_OUTPUT_BYTES].splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        found = None
    names = {target.name for target in table}
    if (
        not isinstance(found, dict)
        or set(found) != names
        or not all(isinstance(each, str) and each in _OUTCOMES for each in found.values())
    ):
        raise HostError(f"a probe pod printed no result: {make_printable(output[-300:])!r}; read its events")
    return found


def make_rows(
    node: str, table: Iterable[ProbeTarget], probed: Mapping[str, str], control: Mapping[str, str]
) -> list[ProbeRow]:
    """Return the rows of a node's probe."""
    return [ProbeRow(node, each, probed[each.name], control.get(each.name, "")) for each in table]


def judge(rows: Sequence[ProbeRow], nodes: Iterable[str]) -> PreflightReport:
    """Decide whether every one of these nodes enforces the policy."""
    faults = []
    for node in nodes:
        own = [row for row in rows if row.node == node]
        reached = [row.target.name for row in own if row.is_reached and not row.target.is_allowed]
        exposed = [row.target.name for row in own if row.is_exposed]
        if not any(row.target.is_allowed for row in own) or not all(
            row.is_reached for row in own if row.target.is_allowed
        ):
            faults.append(f"{node}: a pod cannot reach the door: admit it in the network policy of desks")
        if exposed:
            faults.append(
                f"{node}: the network policy admits connections into desks: a pod without it reaches "
                f"{', '.join(exposed)}; add `Ingress` to the policyTypes of desks' policy, without any rule for it"
            )
        if reached:
            faults.append(
                f"{node}: the network policy is not enforced: a pod reaches {', '.join(reached)}; "
                "use a network plug-in that enforces NetworkPolicy, and apply the policy of desks"
            )
        elif not any(row.is_proof for row in own):
            faults.append(
                f"{node}: nothing shows that the network policy is enforced: a pod without it reaches nothing either; "
                "exempt the control pod from it"
            )
    return PreflightReport(tuple(rows), tuple(faults) or (() if rows else ("no node was tested",)))


def describe_faults(report: PreflightReport) -> str:
    return f"{'; '.join(report.faults)}\n{report.format()}"


def require_trusted(report: PreflightReport) -> None:
    """Raise `HostError` with the reasons if desks must not run in this pool."""
    if not report.is_trusted:
        raise HostError(f"{REFUSAL}: {describe_faults(report)}")
