"""The nodes of a server: found by discovery, followed by their reports, and lost when these stop."""

from __future__ import annotations

import functools
import random
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio

from hotdesk.cluster.certificates import ANY_NODE, ClusterContext
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address, Discovery
from hotdesk.cluster.expiry import OWN
from hotdesk.cluster.names import compute_node_code, get_node_code
from hotdesk.cluster.report import INTERVAL_S, MAX_LINE_BYTES, PROTOCOL, NodeReport, parse_report
from hotdesk.desk.owner.remote import CALL_SECONDS, RemoteRuntime
from hotdesk.desk.seam import Spec
from hotdesk.errors import HostError, HotdeskError, KeeperError
from hotdesk.ipc.child import MAX_PACKET_BYTES
from hotdesk.ipc.tasks import Background
from hotdesk.linux.sockets import receive

LOST_SECONDS = 3 * INTERVAL_S
"""Seconds without a report after which a node counts as lost."""
RETURN_SECONDS = 10.0
"""Seconds after a loss for which a node may return before a server without other nodes refuses to open desks."""
FIND_INTERVAL_S = 2.0
_RETRY_S, _LONGEST_RETRY_S = 0.1, 2.0
_LACKS = {
    "disk": "too little free disk",
    "memory": "too little available memory",
    "processes": "too few processes left below the kernel's limit",
    "network-policy": "a pool of pods whose network is not tested yet or does not keep desks in; read its agent's log",
}


class NodeCalls(RemoteRuntime):
    """The control protocol of a node, below a path."""

    def __init__(self, dialer: NodeDialer, prefix: str = "") -> None:
        super().__init__(Path(str(dialer.address)), dialer.tasks)
        self.dialer = dialer
        self.prefix = prefix

    async def dial(self) -> socket.socket:
        return await self.dialer.dial()

    async def call(
        self,
        method: str,
        target: str,
        value: object = None,
        seconds: float = CALL_SECONDS,
        limit: int = MAX_PACKET_BYTES,
    ) -> dict[str, object]:
        return await super().call(method, self.prefix + target, value, seconds, limit)

    async def upgrade(self, target: str, protocol: str) -> socket.socket:
        return await super().upgrade(self.prefix + target, protocol)


class ClusterNode:
    """One node, for the lifetime of its agent."""

    def __init__(self, report: NodeReport, dialer: NodeDialer) -> None:
        self.name = report.node
        self.code = compute_node_code(report.node)
        self.boot = report.boot
        self.report = report
        self.dialer = dialer
        self.is_heard = True
        """Whether its reports arrive. No desk is opened on a node that may be lost."""
        self.is_lost = False
        self.opened = 0
        """Number of desks opened there since the last report."""
        self.opening = 0
        """Number of desks that this server is opening there: a slow node reports them late."""

    def load(self) -> float:
        """Return its load: desks per processor, with those that are being opened."""
        return (self.report.desks + self.opened + self.opening) / self.report.cpus

    def has_image(self, image: str) -> bool:
        """Return whether the node lists an image. An image that a tenant saved there is not listed."""
        return image in self.report.images


class Nodes:
    """Every node that answers."""

    def __init__(
        self,
        discoveries: Sequence[Discovery],
        context: ssl.SSLContext,
        tasks: Background,
        log: Callable[[Exception], None],
        protocol: str = PROTOCOL,
    ) -> None:
        self.discoveries = discoveries
        self.protocol = protocol
        self.context = context
        self.tasks = tasks
        self.log = log
        self.by_name: dict[str, ClusterNode] = {}
        self.followed: set[Address] = set()
        self.addresses: set[Address] = set()
        """The addresses that discovery found last."""
        self.changed = anyio.Event()
        """Set, and replaced, when a node joins or is lost."""
        self.last_loss = -RETURN_SECONDS
        self.dialers: set[NodeDialer] = set()
        self.is_closed = False
        self.on_join: list[Callable[[ClusterNode], None]] = []
        self.on_loss: list[Callable[[ClusterNode], None]] = []
        self.on_events: dict[str, Callable[[ClusterNode], None]] = {}
        """By tenant: called when a node reports that the tenant's journal there has new events."""

    async def run(self) -> None:
        while True:
            for discovery in self.discoveries:
                try:
                    self.addresses |= {*await discovery.find()}
                except HotdeskError as e:
                    self.log(e)
            for address in self.addresses - self.followed:
                self.followed.add(address)
                self.tasks.start(functools.partial(self.follow, address))
            await anyio.sleep(FIND_INTERVAL_S)

    async def follow(self, address: Address) -> None:
        """Read one node's reports; reconnect when they end, until discovery no longer lists it."""
        node: ClusterNode | None = None
        retry, last_report = _RETRY_S, anyio.current_time()
        while not self.is_closed and (node is not None or await self.is_listed(address)):
            dialer = node.dialer if node is not None else NodeDialer(address, self.context, self.tasks)
            self.dialers.add(dialer)
            is_refused = False  # a refused connection shows that the machine is up and its agent is not running
            try:
                async with aclosing(_hear(dialer, self.protocol)) as reports:
                    async for report in reports:
                        node = self.take(report, dialer, node)
                        retry, last_report = _RETRY_S, anyio.current_time()
            except TimeoutError:
                self.log(
                    HostError(
                        f"the node at {address} did not answer within {LOST_SECONDS:.0f} seconds; check the network, "
                        "and that `hotdesk node run` is running there"
                    )
                )
            except HotdeskError as e:
                self.log(e)
                is_refused = isinstance(e.__cause__, ConnectionRefusedError)
            if node is not None and node.is_lost:
                node = None
            if node is not None:
                node.is_heard = False
                if is_refused or anyio.current_time() - last_report >= LOST_SECONDS:
                    self.lose(node)
                    node = None
            if node is None:
                dialer.close()
                self.dialers.discard(dialer)
            await anyio.sleep(retry)
            retry = _RETRY_S if node is not None else min(2 * retry, _LONGEST_RETRY_S)
        self.followed.discard(address)

    async def is_listed(self, address: Address) -> bool:
        found: set[Address] = set()
        for discovery in self.discoveries:
            try:
                found |= {*await discovery.find()}
            except HotdeskError:
                return True
        self.addresses &= found
        return address in found

    def take(self, report: NodeReport, dialer: NodeDialer, node: ClusterNode | None) -> ClusterNode:
        """Apply a report. If it shows another node or a restarted agent, count the previous node as lost."""
        if dialer.certified not in (report.node, ANY_NODE):
            raise HostError(
                f"a node that calls itself {report.node} presented the certificate of node {dialer.certified}, so it "
                f"is not used; correct its --name, or give it a certificate for {report.node} (`hotdesk node enroll`)"
            )
        if node is not None and (node.name, node.boot) != (report.node, report.boot):
            self.lose(node)
            raise HostError(
                f"`hotdesk node run` was restarted on node {node.name}, so the desks that were open there are gone"
                if node.name == report.node
                else f"node {report.node} has replaced node {node.name} at {dialer.address}, so the desks of node "
                f"{node.name} are gone"
            )
        opened_before = node is not None and node.report.open_network
        if node is None:
            node = self.join(ClusterNode(report, dialer))
        if report.open_network and not opened_before:
            self.log(
                HostError(
                    f"desks on node {node.name} may reach other addresses than their door: its network failed the "
                    "test, and its operator accepts that (`[pods] accept_open_network`)"
                )
            )
        node.report, node.opened, node.is_heard = report, 0, True
        for tenant in report.journals or ():
            if (hear := self.on_events.get(tenant)) is not None:
                hear(node)
        return node

    def join(self, node: ClusterNode) -> ClusterNode:
        """Add a node; raise `HostError` if the ids of its desks would have the same code as another node's."""
        for other in self.by_name.values():
            if other.code == node.code:
                raise HostError(
                    f"node {node.name} at {node.dialer.address} and node {other.name} at "
                    f"{other.dialer.address} would give their desks the same ids; "
                    "give one of them another name (`hotdesk node run --name`, and a certificate for that name)"
                )
        self.by_name[node.name] = node
        for hear in self.on_join:
            hear(node)
        self.tell()
        return node

    def lose(self, node: ClusterNode) -> None:
        """Count a node as lost: no more requests are sent, and its desks count as gone."""
        node.is_lost = True
        self.last_loss = anyio.current_time()
        self.by_name.pop(node.name, None)
        node.dialer.close()
        self.log(
            HostError(
                f"this server has lost node {node.name} at {node.dialer.address}, so the desks there count as gone; "
                "check the network, and that `hotdesk node run` is running there"
            )
        )
        for hear in self.on_loss:
            hear(node)
        self.tell()

    def close(self) -> None:
        """Close the connections to every node; the desks there stay."""
        self.is_closed = True
        for dialer in self.dialers:
            dialer.close()

    def list_expiries(self) -> dict[str, float]:
        """Return when certificates end, as Unix time: those of nodes, and this server's own."""
        found = {f"node {each.name}": each.dialer.expires for each in self.by_name.values()}
        return {**found, OWN: self.context.expires} if isinstance(self.context, ClusterContext) else found

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def find(self, desk: str) -> ClusterNode | None:
        """Return the node that a desk's id belongs to, or `None` if no such node answers."""
        code = get_node_code(desk)
        return next((each for each in self.by_name.values() if each.code == code), None)

    def choose(self, spec: Spec) -> list[ClusterNode]:
        """Return the nodes that may open a desk, the best first; raise `HostError` with the reason if there is none."""
        answering = [each for each in self.by_name.values() if each.is_heard]
        open_nodes = [each for each in answering if each.report.is_open]
        fit = [each for each in open_nodes if spec.wall in each.report.walls]
        if not fit:
            raise HostError(_explain(answering, open_nodes, spec))
        return sorted(fit, key=lambda each: (not each.has_image(spec.image), each.load(), random.random()))  # noqa: S311

    def may_return(self) -> bool:
        """Return whether no node answers, but one may again soon: it is silent, or was lost a moment ago."""
        if any(each.is_heard for each in self.by_name.values()):
            return False
        return bool(self.by_name) or anyio.current_time() - self.last_loss < RETURN_SECONDS

    def list_walls(self) -> set[str]:
        return {wall for each in self.by_name.values() for wall in each.report.walls}


def _explain(answering: Sequence[ClusterNode], open_nodes: Sequence[ClusterNode], spec: Spec) -> str:
    if not answering:
        return "no node responds; check `[serve] nodes`, and that `hotdesk node run` is running there"
    if not open_nodes:
        lacks = {_LACKS.get(what, f"too little {what}") for each in answering for what in each.report.lacks}
        lacks |= {"being stopped" for each in answering if each.report.cordoned}
        return (
            f"none of the {len(answering)} nodes accepts another desk: {', '.join(sorted(lacks))}; burn desks, add a "
            "node to `[serve] nodes`, or try again later"
        )
    option = "" if spec.wall in ("", "container") else f" --wall {spec.wall}"
    return (
        f"no node that accepts desks supports the wall (isolation) {spec.wall}, and hotdesk does not fall back to a "
        f"weaker wall; run `hotdesk setup{option}` on a node, or choose another wall"
    )


async def _hear(dialer: NodeDialer, protocol: str) -> AsyncGenerator[NodeReport, None]:
    """Yield a node's reports until it disconnects, its certificate ends, or it sends none for `LOST_SECONDS`."""
    with anyio.fail_after(LOST_SECONDS):
        sock = await NodeCalls(dialer).upgrade("/node", protocol)
    buffer = b""
    try:
        while True:
            while (end := buffer.find(b"\n")) < 0:
                if len(buffer) > MAX_LINE_BYTES:
                    raise KeeperError(
                        f"the node at {dialer.address} sent a status report of more than {MAX_LINE_BYTES >> 10} KiB, "
                        "so the node is not used"
                    )
                with anyio.move_on_after(LOST_SECONDS) as scope:
                    data = await receive(sock)
                if scope.cancelled_caught or not data:
                    return
                buffer += data
            line, buffer = buffer[:end], buffer[end + 1 :]
            yield parse_report(line)
            if dialer.expires <= time.time():
                return  # no new call would be accepted, so the node must not be chosen
    finally:
        sock.close()
