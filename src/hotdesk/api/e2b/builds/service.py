"""The template builds of a server: running ones, tenants' builds, and removal of unused images."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import anyio

from hotdesk.api.e2b.builds.orders import BuildOrder
from hotdesk.api.e2b.builds.records import BuildRecord, LayerRecord, TemplateRecord, TenantTemplates
from hotdesk.api.e2b.builds.runner import MAX_BUILD_S, TemplateBuildRun
from hotdesk.api.e2b.builds.uploads import TemplateFiles
from hotdesk.api.e2b.control.snapshots import TenantSnapshots
from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.tenants import Tenant
from hotdesk.desk.image.image import get_record_path
from hotdesk.errors import BriefError, HotdeskError

_BUILDS_AT_ONCE = 2
"""Concurrent builds of one tenant; others wait."""
_MAX_WAITING = 50
"""Running and waiting builds of one tenant."""
_MAX_LAYERS = 500
"""Cached layers of one tenant."""
_LAYER_LIFETIME_S = 14 * 86400.0
"""Seconds after which a layer that no build used is removed."""
_SWEEP_INTERVAL_S = 60.0
_RUNS_REMEMBERED = 200
"""Finished builds whose logs can still be read."""


class TemplateBuilds:
    def __init__(self, launcher: LauncherClient, sandboxes: Sandboxes, snapshots: TenantSnapshots) -> None:
        self.launcher = launcher
        """Deletes and imports images; this process may not."""
        self.sandboxes = sandboxes
        self.snapshots = snapshots
        self.files = TemplateFiles()
        self.stores: dict[str, TenantTemplates] = {}
        self.places: dict[str, anyio.CapacityLimiter] = {}
        self.runs: dict[tuple[str, str], TemplateBuildRun] = {}
        """Builds by tenant and id, the oldest first."""
        self.sweeping = anyio.Event()

    def of(self, tenant: Tenant) -> TenantTemplates:
        store = self.stores.get(tenant.name)
        if store is None:
            store = self.stores[tenant.name] = TenantTemplates(tenant)
            self.sweeping.set()
        store.tenant = tenant  # its keeper may have been replaced
        return store

    def find(self, tenant: Tenant, reference: str) -> BuildRecord | None:
        """Return the build that a sandbox's template refers to; `None` if it refers to a snapshot."""
        if self.snapshots.find(tenant, reference) is not None:
            return None
        return self.of(tenant).find_build(reference)

    def start(
        self, store: TenantTemplates, template: TemplateRecord, build: BuildRecord, order: BuildOrder, by: str
    ) -> None:
        """Start a build, which runs in the background."""
        key = (store.tenant.name, build.id)
        if build.status != "waiting" or key in self.runs:
            raise E2bError(400, "This build was started already. Request a new build.")
        waiting = [run for (name, _), run in self.runs.items() if name == key[0] and not is_over(run.record)]
        if len(waiting) >= _MAX_WAITING:
            raise E2bError(
                429, f"{_MAX_WAITING} builds are running or queued, which is the limit. Wait until one ends."
            )
        run = TemplateBuildRun(store, self.launcher, self.snapshots, self.sandboxes, template.id, build, order, by)
        self.runs[key] = run
        self.forget_runs()
        places = self.places.setdefault(key[0], anyio.CapacityLimiter(_BUILDS_AT_ONCE))
        self.sandboxes.tasks.start_soon(self.carry_out, run, places)

    async def carry_out(self, run: TemplateBuildRun, places: anyio.CapacityLimiter) -> None:
        try:
            await run.run(places)
        except (HotdeskError, OSError) as e:
            log(e)
        self.sweeping.set()

    def forget_runs(self) -> None:
        over = [key for key, run in self.runs.items() if is_over(run.record)]
        for key in over[: max(0, len(over) - _RUNS_REMEMBERED)]:
            del self.runs[key]

    def find_run(self, tenant: str, build: str) -> TemplateBuildRun | None:
        return self.runs.get((tenant, build))

    # -- removal ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            with anyio.move_on_after(_SWEEP_INTERVAL_S):
                await self.sweeping.wait()
            self.sweeping = anyio.Event()
            for store in list(self.stores.values()):
                try:
                    await self.sweep(store)
                except (HotdeskError, OSError) as e:
                    log(e)

    async def sweep(self, store: TenantTemplates) -> None:
        """Remove a tenant's images that no template uses and that are too old or too many to cache."""
        surplus = list(self.find_surplus(store))
        for layer in surplus:
            del store.layers[layer.key]
            store.unfinished[layer.image] = 0.0
        busy, changed = self.find_begin(store.tenant.name) < math.inf, bool(surplus)
        for name, began in list(store.unfinished.items()):
            is_made = busy and time.time() - began < 2 * MAX_BUILD_S
            if is_made or name in store.list_needed() or self.is_used(store, name):
                continue
            if await self.remove(store, name):
                store.unfinished.pop(name, None)
                changed = True
        if changed:
            await store.write()

    def find_surplus(self, store: TenantTemplates) -> Iterator[LayerRecord]:
        """Yield cached layers that are too old or beyond the tenant's limits, least recently used first."""
        needed, now, begin = store.list_needed(), time.time(), self.find_begin(store.tenant.name)
        unneeded = (each for each in store.layers.values() if each.image not in needed and each.used < begin)
        spare = sorted(unneeded, key=lambda each: each.used)
        count, size = len(spare), sum(each.size for each in spare)
        for each in spare:
            if now - each.used > _LAYER_LIFETIME_S or count > _MAX_LAYERS or size > self.sandboxes.serving.build_cache:
                count, size = count - 1, size - each.size
                yield each

    def find_begin(self, tenant: str) -> float:
        """Return when a tenant's oldest running build was created: layers used since then may be used again."""
        runs = (run for (name, _), run in self.runs.items() if name == tenant and not is_over(run.record))
        return min((run.record.created for run in runs), default=math.inf)

    def is_used(self, store: TenantTemplates, name: str) -> bool:
        layers = any(each.image == name for each in store.layers.values())
        return layers or self.sandboxes.stand_on(name)

    async def remove(self, store: TenantTemplates, name: str) -> bool:
        """Remove an image; `False` while a desk uses it."""
        try:
            await self.launcher.remove_image(store.tenant.name, name)
        except BriefError:
            return not get_record_path(store.tenant.settings.images, name).exists()
        except HotdeskError as e:
            log(e)
            return False
        return True


def is_over(record: BuildRecord) -> bool:
    return record.status in ("ready", "error")
