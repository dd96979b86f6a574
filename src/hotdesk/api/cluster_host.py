"""A tenant's machine on a server whose desks are on nodes: it opens none here and has no keeper or door."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from hotdesk.api.e2b.responses import log
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.log import LOG, describe
from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.api.walls import TenantWalls
from hotdesk.cluster.certificates import make_tls_context
from hotdesk.cluster.discovery import parse_discovery
from hotdesk.cluster.expiry import follow_certificates
from hotdesk.cluster.host import ClusterMachine
from hotdesk.cluster.journal_follower import MAX_PAUSE_S, MAX_SYNC_PAUSE_S, JournalFollower, pull
from hotdesk.cluster.names import get_node_code
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.pull import PulledJournal
from hotdesk.cluster.report import WITH_JOURNALS
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started
from hotdesk.drive.chain import Row
from hotdesk.errors import make_printable
from hotdesk.ipc.tasks import background
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

_STRAYS_INTERVAL_S = 5.0
_PIECE = 50
"""Events of a node that are passed to the keys process in one call."""
NODES = "nodes"
"""Folder for the events of nodes, below a tenant's `serve` folder."""


class ClusterHost(MeteredHost, ClusterMachine):
    def __init__(
        self,
        settings: Config,
        tenant: str,
        quotas: Quotas,
        walls: TenantWalls,
        nodes: Nodes,
        launcher: LauncherClient | None = None,
    ) -> None:
        super().__init__(settings, tenant, quotas, walls=walls)
        self.nodes = nodes
        self.launcher = launcher

    async def __aenter__(self) -> ClusterHost:
        await super().__aenter__()
        self.journals: dict[str, PulledJournal] = {}
        self.followers: dict[str, JournalFollower] = {}
        """The follower of this tenant's journal on each node, by the node's name."""
        self.nodes.on_join.append(self.follow)
        self.nodes.on_loss.append(self.lose)
        self.nodes.on_events[self.tenant] = self.note_events
        self.stack.callback(self.follow_no_more)
        for node in self.nodes.by_name.values():
            self.follow(node)
        self.tasks.start(self.burn_strays)
        return self

    def follow_no_more(self) -> None:
        self.nodes.on_join.remove(self.follow)
        self.nodes.on_loss.remove(self.lose)
        del self.nodes.on_events[self.tenant]

    async def start_parts(self) -> Started:
        """Have the launcher start the process for keys and readers; without a launcher it is a child of this one."""
        return await (self.launcher.start_keeper(self.tenant) if self.launcher is not None else super().start_parts())

    async def burn_strays(self) -> None:
        """Burn, every few seconds, desks that killed jobs left on nodes, once an earlier server's desks are found.

        A node without desks of other processes is not asked again before this tenant's journal there has new events.
        """
        while True:
            await anyio.sleep(_STRAYS_INTERVAL_S)
            if self.cluster.is_settled:
                await self.burn_new_strays()

    async def burn_new_strays(self) -> None:
        """Burn strays on the nodes that may have some."""
        for follower in list(self.followers.values()):
            moves = follower.moves
            if follower.cleared_at == moves or follower.lost.is_set():
                continue
            if not await self.cluster.burn_strays(follower.node):
                follower.cleared_at = moves

    def sweep(self) -> None:
        for desk in [desk for desk in self.counted if desk not in self.cluster.desks]:
            self.counted.pop(desk).free()

    def follow(self, node: ClusterNode) -> None:
        """Copy this tenant's events of a node to this machine from now on. No node holds up the others."""
        place = self.config.lib / "serve" / NODES / node.name
        journal = self.journals.setdefault(node.name, PulledJournal(place))
        max_pause_s = MAX_SYNC_PAUSE_S if self.config.serve.get("sync") is True else MAX_PAUSE_S
        pull_new = functools.partial(self._try_to_pull, node, journal)
        follower = JournalFollower(node, pull_new, max_pause_s=max_pause_s)
        earlier, self.followers[node.name] = self.followers.get(node.name), follower
        self.tasks.start(functools.partial(self._run_follower, follower, earlier))

    async def _run_follower(self, follower: JournalFollower, earlier: JournalFollower | None) -> None:
        await follower.run(earlier)
        if self.followers.get(follower.node.name) is follower:
            del self.followers[follower.node.name]

    def note_events(self, node: ClusterNode) -> None:
        """Note that a node has new events of this tenant."""
        if (follower := self.followers.get(node.name)) is not None:
            follower.note()

    def lose(self, node: ClusterNode) -> None:
        """Follow a lost node no longer."""
        if (follower := self.followers.get(node.name)) is not None:
            follower.end()

    async def _try_to_pull(self, node: ClusterNode, journal: PulledJournal) -> int | None:
        """Copy the new events of one node, whatever it sends; return their number, or `None` if that failed."""
        take = functools.partial(journal.take, pass_on=functools.partial(self._write_down, node))
        try:
            await self.cluster_doors.meet()  # starts keys, which record the events, if necessary
            return await pull(self.cluster.on(node), journal, take, confirms=node.report.journals is not None)
        except Exception as e:  # noqa: BLE001 - a rim: an attacker may control the node
            LOG.write_seldom("error", describe(e), ("journal", self.tenant, node.name))
            return None

    def _write_down(self, node: ClusterNode, rows: Sequence[Row]) -> None:
        """Record here what a node's keeper, keys and doors did for that node's own desks."""
        events = [row for row in rows if get_node_code(row.chain) == node.code]
        newer: set[str] = set()
        for place in range(0, len(events), _PIECE):
            newer |= self.cluster_doors.note_pulled(events[place : place + _PIECE])
        if newer:
            names = make_printable(", ".join(sorted(newer))[:200])
            why = f"node {node.name} runs newer code: not all fields of its events are recorded here ({names})"
            LOG.write_seldom("error", f"{why}; update the server", ("newer", self.tenant, node.name))


def list_node_ports(serving: Serving) -> set[int]:
    return {parse_discovery(each).port for each in serving.nodes}


@asynccontextmanager
async def open_nodes(serving: Serving, walls: TenantWalls) -> AsyncIterator[Nodes | None]:
    """Yield a server's nodes, which are found once `Nodes.run` runs; `None` if the server opens its desks itself."""
    if not serving.nodes:
        yield None
        return
    assert serving.identity is not None  # `settings.check` requires it
    async with background() as tasks:
        context = make_tls_context(serving.identity, "server")
        nodes = Nodes([parse_discovery(each) for each in serving.nodes], context, tasks, log, WITH_JOURNALS)
        refresh = _make_wall_refresher(nodes, walls)
        nodes.on_join.append(refresh)
        nodes.on_loss.append(refresh)
        walls.catalog = NOMINAL_CATALOG
        tasks.start(lambda: follow_certificates(context, nodes.list_expiries, log))
        try:
            yield nodes
        finally:
            nodes.close()


def _make_wall_refresher(nodes: Nodes, walls: TenantWalls) -> Callable[[ClusterNode], None]:
    def refresh(node: ClusterNode) -> None:
        found = {name: WallStatus(name, TRAITS[name]) for name in nodes.list_walls() if name in TRAITS}
        walls.catalog = WallCatalog(found) if found else NOMINAL_CATALOG

    return refresh
