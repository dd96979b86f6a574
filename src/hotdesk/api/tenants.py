"""Tenants: each is a state directory with a keeper, a door and keys of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hotdesk.api.cluster_host import ClusterHost
from hotdesk.api.e2b.responses import log
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.walls import TenantWalls
from hotdesk.cluster.nodes import Nodes
from hotdesk.cluster.pull import has_work
from hotdesk.config import Config, get_tenant_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.spawn import Started
from hotdesk.errors import HostError, HotdeskError

PAUSE, LONG_PAUSE = 1.0, 30.0
"""Seconds before a tenant's keeper is started again: at first, and at most."""


@dataclass(slots=True)
class Tenant:
    name: str
    settings: Config
    host: MeteredHost
    closing: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class Tenants:
    """The tenants of a server, each opened on first use."""

    settings: Config
    tasks: TaskGroup
    launcher: LauncherClient | None = None
    """Starts keepers once this process may not; `None`: keepers are this process's own children."""
    quotas: Quotas = field(default_factory=Quotas)
    walls: TenantWalls = field(default_factory=TenantWalls)
    nodes: Nodes | None = None
    """Nodes on which desks are opened; `None` for this machine."""
    open: dict[str, Tenant] = field(default_factory=dict)
    opening: anyio.Lock = field(default_factory=anyio.Lock)
    failing: set[str] = field(default_factory=set)
    """Tenants whose keeper did not start or died, until the next one is up."""
    closing: anyio.Event = field(default_factory=anyio.Event)

    async def get_tenant(self, name: str) -> Tenant:
        if (found := self.open.get(name)) is not None:
            return found
        async with self.opening:
            if name not in self.open:
                self.open[name] = await self.start_tenant(name)
            return self.open[name]

    def find_idle(self, name: str) -> Config | None:
        """Return the settings of a tenant that is not started and has nothing to do, `None` if it is or may have."""
        settings = get_tenant_settings(self.settings, name)
        return None if name in self.open or name in self.failing or has_work(settings) else settings

    async def start_tenant(self, name: str) -> Tenant:
        """Open a tenant; if its keeper cannot start, opening is retried in the background."""
        try:
            tenant: Tenant = await self.tasks.start(self.run_tenant, name)
        except (HotdeskError, OSError) as e:
            if name not in self.failing:
                self.failing.add(name)
                self.tasks.start_soon(self.revive, name)
            if isinstance(e, HotdeskError):
                raise
            raise HostError(
                f"the keeper of tenant {name} cannot be started: {e.strerror}; check the tenant's state directory"
            ) from e
        self.failing.discard(name)
        return tenant

    async def run_tenant(self, name: str, *, task_status: TaskStatus[Tenant]) -> None:
        """Keep a tenant's machine up until the server closes."""
        settings = get_settings(self.settings, name)
        keeper = await self.launcher.start_keeper(name) if self.launcher is not None and self.nodes is None else None
        async with self.make_host(settings, name, keeper) as host:
            await host.prepare()
            tenant = Tenant(name, settings, host)
            task_status.started(tenant)
            async with anyio.create_task_group() as tasks:
                if self.nodes is None:
                    tasks.start_soon(self.replace_with_keeper, tenant)
                await tenant.closing.wait()
                tasks.cancel_scope.cancel()

    def make_host(self, settings: Config, name: str, keeper: Started | None = None) -> MeteredHost:
        if self.nodes is not None:
            return ClusterHost(settings, name, self.quotas, self.walls, self.nodes, self.launcher)
        return MeteredHost(settings, name, self.quotas, keeper, self.walls)

    async def replace_with_keeper(self, tenant: Tenant) -> None:
        """Wait until a tenant's keeper has ended, then open the tenant again: its new keeper burns what is left."""
        await tenant.host.get_keeper_runtime().keeper.wait_gone()
        self.open.pop(tenant.name)
        self.failing.add(tenant.name)
        tenant.closing.set()
        self.tasks.start_soon(self.revive, tenant.name)

    async def revive(self, name: str) -> None:
        """Open a tenant again after a pause; on failure retry with growing pauses until this or a request succeeds."""
        pause = PAUSE
        while name in self.failing and not self.closing.is_set():
            with anyio.move_on_after(pause):
                await self.closing.wait()
                return
            pause = min(2 * pause, LONG_PAUSE)
            try:
                await self.get_tenant(name)
            except (HotdeskError, OSError) as e:
                log(e)


def get_settings(settings: Config, name: str) -> Config:
    """Return the settings of a tenant: the machine's own, or those of a state directory below it."""
    return get_tenant_settings(settings, name)


@asynccontextmanager
async def open_tenants(
    settings: Config,
    launcher: LauncherClient | None = None,
    quotas: Quotas | None = None,
    walls: TenantWalls | None = None,
    nodes: Nodes | None = None,
) -> AsyncIterator[Tenants]:
    """Yield the tenants of a server; their desks burn with it."""
    async with anyio.create_task_group() as tasks:
        tenants = Tenants(settings, tasks, launcher, quotas or Quotas(), walls or TenantWalls(), nodes)
        try:
            yield tenants
        finally:
            tenants.closing.set()
            for tenant in tenants.open.values():
                tenant.closing.set()
