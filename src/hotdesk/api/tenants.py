"""Whose desks, jobs, secrets and files: a tenant is a state directory, with a keeper, a door and keys of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup, TaskStatus

from hotdesk.api.metering import MeteredHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.starter import Starter
from hotdesk.config import Config, for_tenant


@dataclass(slots=True)
class Tenant:
    """One tenant, with its machine."""

    name: str
    settings: Config
    host: MeteredHost
    closing: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class Tenants:
    """The tenants of a server, each opened when it is first asked for."""

    settings: Config
    tasks: TaskGroup
    starter: Starter | None = None
    """Who starts keepers once this process may not; without it keepers are this process's own children."""
    quotas: Quotas = field(default_factory=Quotas)
    open: dict[str, Tenant] = field(default_factory=dict)
    opening: anyio.Lock = field(default_factory=anyio.Lock)

    async def tenant(self, name: str) -> Tenant:
        """Give a tenant, its machine up."""
        if (found := self.open.get(name)) is not None:
            return found
        async with self.opening:
            if name not in self.open:
                self.open[name] = await self.tasks.start(self.live, name)
            return self.open[name]

    async def live(self, name: str, *, task_status: TaskStatus[Tenant]) -> None:
        """Keep a tenant's machine up until the server closes."""
        settings = settings_of(self.settings, name)
        keeper = await self.starter.keeper(name) if self.starter is not None else None
        async with MeteredHost(settings, name, self.quotas, keeper) as host:
            await host.ready()
            tenant = Tenant(name, settings, host)
            task_status.started(tenant)
            await tenant.closing.wait()


def settings_of(settings: Config, name: str) -> Config:
    """Give the settings of a tenant: the machine's own, or those of a state directory below it."""
    return for_tenant(settings, name)


@asynccontextmanager
async def opened(
    settings: Config, starter: Starter | None = None, quotas: Quotas | None = None
) -> AsyncIterator[Tenants]:
    """Give the tenants of a server; their desks burn with it."""
    async with anyio.create_task_group() as tasks:
        tenants = Tenants(settings, tasks, starter, quotas or Quotas())
        try:
            yield tenants
        finally:
            for tenant in tenants.open.values():
                tenant.closing.set()
