"""A tenant's machine that counts the desks it opens against the tenant's quota."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

import anyio

from hotdesk.api.e2b.responses import log
from hotdesk.api.quotas import QuotaError, Quotas, QuotaShare
from hotdesk.api.walls import TenantWalls
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.spawn import Started
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, DeskId, SnapshotId, Spec, new_id
from hotdesk.errors import HotdeskError
from hotdesk.event import VolumeChanged
from hotdesk.host import Host


class MeteredHost(Host):
    """A tenant's machine that counts the desks it opens; ended desks no longer count."""

    def __init__(
        self,
        settings: Config,
        tenant: str,
        quotas: Quotas,
        keeper: Started | None = None,
        walls: TenantWalls | None = None,
    ) -> None:
        super().__init__(settings, keeper=keeper)
        self.tenant = tenant
        self.quotas = quotas
        self.tenant_walls = walls or TenantWalls()
        """Chooses the walls of tenants' desks."""
        self.counted: dict[str, QuotaShare] = {}
        self.ending: dict[str, anyio.Event] = {}
        """By desk that was ended: set when nothing is left of it."""

    async def __aenter__(self) -> MeteredHost:
        await super().__aenter__()
        assert isinstance(self.runtime, KeeperRuntime | ClusterRuntime)
        self.runtime.route = self.route
        return self

    def route(self, spec: Spec) -> Spec:
        """Set a spec's wall to this tenant's, unless it has a stronger one."""
        return self.tenant_walls.route(self.tenant, spec)

    async def __aexit__(self, *failure: object) -> None:
        try:
            await super().__aexit__(*failure)
        finally:
            for share in self.counted.values():
                share.free()

    async def open(self, spec: Spec | None = None, scope: Scope = CLOSED) -> Desk:
        spec = spec or Spec()
        share = self.take(desks=1, cpus=spec.cpus, memory=spec.memory, disk=spec.disk)
        try:
            desk = await super().open(spec, scope)
            await self.note_volumes(spec, [desk])
        except BaseException:
            share.free()
            raise
        self.counted[desk.id] = share
        return desk

    async def note_volumes(self, spec: Spec, desks: Sequence[Desk]) -> None:
        """Record the volumes of desks before they are used; a desk whose record fails is burnt."""
        if not spec.volumes:
            return
        events = [
            VolumeChanged(new_id(), volume, "mounted", spec.by, desk=desk.id, path=path)
            for desk in desks
            for path, volume in spec.volumes.items()
        ]
        try:
            await self.prepare()
            await anyio.to_thread.run_sync(lambda: self.note(*events))
        except BaseException:
            with anyio.CancelScope(shield=True):
                for desk in desks:
                    await self.burn(desk.id)
            raise

    async def fork(
        self, desk: Desk, count: int, snapshot: SnapshotId | None = None, *, memory: bool = False
    ) -> Sequence[Desk]:
        """Open copies of a desk with its files, if the tenant's quota allows so many more of its size.

        With `memory` the desk's programs continue in the copies.
        """
        one = self.get_size(desk.id)
        each: list[QuotaShare] = []
        try:
            for _ in range(count):
                each.append(self.take(**one))
            forks = await desk.fork(count, snapshot, memory=memory)
            if self.own_runtime is not None and (handle := self.own_runtime.handles.get(desk.id)) is not None:
                await self.note_volumes(handle.spec, forks)
        except BaseException:
            for share in each:
                share.free()
            raise
        self.counted.update(zip((fork.id for fork in forks), each, strict=True))
        return forks

    async def wake(self, desk: DeskId, scope: Scope = CLOSED, spec: Spec | None = None) -> Desk:
        """Resume a hibernated desk of a spec, if the tenant's quota allows one more of its size."""
        size = spec or Spec()
        share = self.take(desks=1, cpus=size.cpus, memory=size.memory, disk=size.disk)
        try:
            woken = await super().wake(desk, scope)
        except BaseException:
            share.free()
            raise
        if (earlier := self.counted.pop(woken.id, None)) is not None:
            earlier.free()  # it ended here when it was to be resumed, and nobody ended it by name
        self.counted[woken.id] = share
        return woken

    async def end(self, desk: DeskId) -> None:
        """Kill everything in a desk at once; it no longer counts, and is burnt in the background."""
        if self.own_runtime is None:
            await self.burn(desk)
            return
        await self.own_runtime.strike(desk)
        share = self.counted.pop(desk, None)
        if share is not None:
            share.free()
        over = self.ending[desk] = anyio.Event()
        self.own_runtime.tasks.start(functools.partial(self.finish_end, desk, share, over))

    async def finish_end(self, desk: DeskId, share: QuotaShare | None, over: anyio.Event) -> None:
        """Burn what is left of a desk; if that fails, the desk counts again."""
        try:
            await self.burn(desk)
        except (HotdeskError, OSError) as e:
            log(e)
        finally:
            del self.ending[desk]
            over.set()
        if share is not None and self.has(desk):
            self.counted[desk] = self.quotas.count(self.tenant, **share.amounts)

    async def wait_for_ends(self) -> None:
        """Wait until nothing is left of the desks that were ended so far."""
        for over in list(self.ending.values()):
            await over.wait()

    def count(self, desk: DeskId, spec: Spec) -> None:
        """Count a desk that is already open, even if it exceeds the quota."""
        self.counted[desk] = self.quotas.count(self.tenant, desks=1, cpus=spec.cpus, memory=spec.memory, disk=spec.disk)

    def get_size(self, desk: DeskId) -> dict[str, float]:
        if (share := self.counted.get(desk)) is not None:
            return share.amounts
        facts = state.read_facts(self.config.run / "desks" / desk) or {}
        return {"desks": 1, **{name: float(str(facts[name])) for name in ("cpus", "memory") if name in facts}}

    def take(self, **amounts: float) -> QuotaShare:
        try:
            return self.quotas.take(self.tenant, **amounts)
        except QuotaError:
            self.sweep()
            return self.quotas.take(self.tenant, **amounts)

    def sweep(self) -> None:
        try:
            there = set(os.listdir(self.config.run / "desks"))
        except FileNotFoundError:
            there = set()
        for desk in [desk for desk in self.counted if desk not in there]:
            self.counted.pop(desk).free()
