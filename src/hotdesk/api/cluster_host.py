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
from hotdesk.cluster.names import get_node_code
from hotdesk.cluster.nodes import ClusterNode, NodeCalls, Nodes
from hotdesk.cluster.pull import BATCH, PulledJournal
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started
from hotdesk.drive.chain import Row
from hotdesk.errors import make_printable
from hotdesk.ipc.tasks import background
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

_PULL_INTERVAL_S = 1.0
_MAX_PULL_PAUSE_S = 60.0
"""Maximum seconds until a node whose events could not be stored is asked again; the pause doubles up to it."""
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
        self.tasks.start(self.pull_events)
        self.tasks.start(self.burn_strays)
        return self

    async def start_parts(self) -> Started:
        """Have the launcher start the process for keys and readers; without a launcher it is a child of this one."""
        return await (self.launcher.start_keeper(self.tenant) if self.launcher is not None else super().start_parts())

    async def burn_strays(self) -> None:
        """Burn, every few seconds, desks that killed jobs left on nodes, once an earlier server's desks are found."""
        while True:
            await anyio.sleep(_STRAYS_INTERVAL_S)
            for node in list(self.nodes.by_name.values()) if self.cluster.is_settled else []:
                await self.cluster.burn_strays(node)

    def sweep(self) -> None:
        for desk in [desk for desk in self.counted if desk not in self.cluster.desks]:
            self.counted.pop(desk).free()

    async def pull_events(self) -> None:
        """Copy the events of nodes to this machine, once a second. No node holds up the others."""
        journals: dict[str, PulledJournal] = {}
        pulling: set[str] = set()
        async with anyio.create_task_group() as tasks:
            while True:
                await anyio.sleep(_PULL_INTERVAL_S)
                for node in list(self.cluster.nodes.by_name.values()):
                    if node.name not in pulling:
                        place = self.config.lib / "serve" / NODES / node.name
                        journal = journals.setdefault(node.name, PulledJournal(place))
                        tasks.start_soon(self._pull_from, node, journal, pulling)

    async def _pull_from(self, node: ClusterNode, journal: PulledJournal, pulling: set[str]) -> None:
        """Copy the events of one node; after failures, try again less and less often while it is here."""
        pulling.add(node.name)
        pause = _PULL_INTERVAL_S
        try:
            while not await self._try_to_pull(node, journal) and self.nodes.by_name.get(node.name) is node:
                pause = min(2 * pause, _MAX_PULL_PAUSE_S)
                await anyio.sleep(pause)
        finally:
            pulling.discard(node.name)

    async def _try_to_pull(self, node: ClusterNode, journal: PulledJournal) -> bool:
        """Copy the events of one node, whatever it sends; return whether that succeeded."""
        take = functools.partial(journal.take, pass_on=functools.partial(self._write_down, node))
        try:
            await _pull(self.cluster.on(node), journal, take)
        except Exception as e:  # noqa: BLE001 - a rim: an attacker may control the node
            LOG.write_seldom("error", describe(e), ("journal", self.tenant, node.name))
            return False
        return True

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


async def _pull(calls: NodeCalls, journal: PulledJournal, take: Callable[[dict[str, object]], int]) -> None:
    while True:
        after = await anyio.to_thread.run_sync(journal.read_last_number)
        reply = await calls.call("GET", f"/journal/{after}")
        if await anyio.to_thread.run_sync(take, reply) < BATCH:
            return


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
        nodes = Nodes([parse_discovery(each) for each in serving.nodes], context, tasks, log)
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
