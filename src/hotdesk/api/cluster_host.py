"""The host of a tenant whose server uses nodes: no desk, keeper, door or keys run here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import anyio

from hotdesk.api.e2b.responses import log
from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.api.walls import TenantWalls
from hotdesk.brief.data import Scope
from hotdesk.cluster.certificates import make_tls_context
from hotdesk.cluster.discovery import parse_discovery
from hotdesk.cluster.nodes import ClusterNode, NodeCalls, Nodes
from hotdesk.cluster.pull import BATCH, PulledJournal
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.config import Config
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import HostError, HotdeskError
from hotdesk.ipc.tasks import background
from hotdesk.walls import NOMINAL_CATALOG, TRAITS, WallCatalog, WallStatus

_PULL_INTERVAL_S = 1.0
NODES = "nodes"
"""Where events of nodes are, below a tenant's `serve` folder."""


class ClusterHost(MeteredHost):
    """A tenant's desks on nodes, counted against its quota."""

    def __init__(
        self, settings: Config, tenant: str, quotas: Quotas, walls: TenantWalls | None, nodes: Nodes | None
    ) -> None:
        super().__init__(settings, tenant, quotas, walls=walls)
        self.nodes = nodes
        self.cluster: ClusterRuntime

    async def __aenter__(self) -> ClusterHost:
        assert self.nodes is not None
        await self.stack.__aenter__()
        tasks = await self.stack.enter_async_context(background())
        self.runtime = self.cluster = ClusterRuntime(self.nodes, self.tenant, tasks)
        self.stack.callback(self.cluster.close)
        tasks.start(self.pull_events)
        return self

    def get_keeper_runtime(self) -> NoReturn:
        """Refuse what only a server with desks of its own offers."""
        raise HostError(
            "this server opens its desks on nodes; it offers no volumes, secrets, jobs or journal of its own"
        )

    def has_ended(self, desk: DeskId) -> bool:
        return desk not in self.cluster.desks

    async def prepare(self) -> None:
        """Be ready: nodes take their own notes."""

    def keep_ready(self, spec: Spec, count: int, *, proven: bool = False) -> None:
        self.cluster.keep_ready(self.route(spec), count, proven=proven)

    async def change_scope(self, desk: DeskId, scope: Scope, by: str = "owner") -> None:
        await self.cluster.change_scope(desk, scope, by)

    def sweep(self) -> None:
        for desk in [desk for desk in self.counted if desk not in self.cluster.desks]:
            self.counted.pop(desk).free()

    async def pull_events(self) -> None:
        """Bring events of nodes home, once a second."""
        journals: dict[str, PulledJournal] = {}
        while True:
            await anyio.sleep(_PULL_INTERVAL_S)
            for node in list(self.cluster.nodes.by_name.values()):
                place = self.config.lib / "serve" / NODES / node.name
                journal = journals.setdefault(node.name, PulledJournal(place))
                try:
                    await _pull(self.cluster.on(node), journal)
                except (HotdeskError, OSError) as e:
                    log(e)


async def _pull(calls: NodeCalls, journal: PulledJournal) -> None:
    while True:
        reply = await calls.call("GET", f"/journal/{journal.after}")
        if await anyio.to_thread.run_sync(journal.take, reply) < BATCH:
            return


def list_node_ports(serving: Serving) -> set[int]:
    return {parse_discovery(each).port for each in serving.nodes}


@asynccontextmanager
async def open_nodes(serving: Serving, walls: TenantWalls) -> AsyncIterator[Nodes | None]:
    """Yield the nodes of a server, looked for once `Nodes.run` runs; None where its desks are its own."""
    if not serving.nodes:
        yield None
        return
    assert serving.identity is not None  # `settings.check` saw to it
    async with background() as tasks:
        context = make_tls_context(serving.identity, "server")
        nodes = Nodes([parse_discovery(each) for each in serving.nodes], context, tasks, log)
        refresh = _make_wall_refresher(nodes, walls)
        nodes.on_join.append(refresh)
        nodes.on_loss.append(refresh)
        walls.catalog = NOMINAL_CATALOG
        try:
            yield nodes
        finally:
            nodes.close()


def _make_wall_refresher(nodes: Nodes, walls: TenantWalls) -> Callable[[ClusterNode], None]:
    def refresh(node: ClusterNode) -> None:
        found = {name: WallStatus(name, TRAITS[name]) for name in nodes.list_walls() if name in TRAITS}
        walls.catalog = WallCatalog(found) if found else NOMINAL_CATALOG

    return refresh
