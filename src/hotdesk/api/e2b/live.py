"""Records of sandboxes whose desks, on nodes, outlive the server: after it was killed, the next one finds them again.

A record is written before its program learns of the sandbox; later changes (its end, its state) are written within half
a second. The record of a desk that is not found at once is kept until the desk's node has answered without the desk, or
must have burnt it. It has the program's settings, and nothing that was derived from them, as in `hibernate.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Literal

import anyio
import anyio.to_thread
from pydantic import Field, ValidationError

from hotdesk.api.cluster_host import ClusterHost
from hotdesk.api.e2b.hibernate import SavedSandboxes, list_tenant_names, report_failure
from hotdesk.api.e2b.record import COMMON, SandboxRecord, describe
from hotdesk.api.e2b.responses import E2bError, log, make_not_connected_error
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.log import LOG
from hotdesk.api.log import describe as describe_error
from hotdesk.api.tenants import Tenant, Tenants
from hotdesk.brief.data import Scope
from hotdesk.cluster.names import ORPHAN_SECONDS
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.config import WALLS
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import ID_SHAPE, Desk, DeskId
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.linux import private_files

FOLDER = "live"
SETTLE_SECONDS = 5.0
"""Seconds a new server waits for the nodes of the desks it had."""
_WRITE_INTERVAL_S = 0.5
_LOOK_INTERVAL_S = 0.5
_MAX_RECORDS = 100_000
_FIELDS = ("state", "pause_mode")
"""Fields of a record, beside the common ones, that are copied from its sandbox."""


class LiveSandbox(SandboxRecord):
    """All properties of a sandbox except its desk."""

    desk: Annotated[str, Field(pattern=f"^{ID_SHAPE.pattern}$")]
    image: str
    wall: str
    cpus: float
    memory: int
    state: Literal["running", "paused"]
    pause_mode: Literal["full", "filesystem"]


@dataclass(frozen=True, slots=True)
class MissingSandbox:
    """A sandbox whose desk was not found yet."""

    tenant: Tenant
    record: LiveSandbox
    end: float
    """Monotonic time by which its node has burnt the desk, unless the server has found it."""

    @property
    def desk(self) -> DeskId:
        return DeskId(self.record.desk)


@dataclass(slots=True)
class LiveRecords:
    sandboxes: Sandboxes
    saved: SavedSandboxes
    tenants: Tenants
    written: dict[str, tuple[Tenant, bytes]] = field(default_factory=dict)
    missing: dict[str, MissingSandbox] = field(default_factory=dict)
    """Sandboxes that may still be found, by id."""
    unread: set[str] = field(default_factory=set)
    """Tenants that could not be opened, so that their records are not read yet."""
    settle_seconds: float = SETTLE_SECONDS

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.find_missing)
            while True:
                await anyio.sleep(_WRITE_INTERVAL_S)
                await self.update()

    async def update(self) -> None:
        """Write records that changed, and remove those of sandboxes that ended; what fails is retried next time."""
        for sandbox in list(self.sandboxes.by_id.values()):
            with report_failure(sandbox.tenant):
                await self.write(sandbox)
        for name in [each for each in self.written if each not in self.sandboxes.by_id]:
            with report_failure(self.written[name][0]):
                await self.remove(name)

    async def write(self, sandbox: Sandbox) -> None:
        if sandbox.opened is None:
            return
        async with sandbox.recording:  # of two callers, the newer record stays
            data = make_record(sandbox).model_dump_json().encode()
            if self.written.get(sandbox.id, (None, b""))[1] != data:
                await anyio.to_thread.run_sync(_write, get_folder(sandbox.tenant), sandbox.id, data)
                self.written[sandbox.id] = (sandbox.tenant, data)

    async def remove(self, name: str) -> None:
        tenant, _ = self.written[name]
        await anyio.to_thread.run_sync(private_files.remove, get_folder(tenant), f"{name}.json")
        del self.written[name]

    async def restore(self) -> None:
        """Restore every sandbox whose desk is found at once. `run` restores those whose nodes join later."""
        async with anyio.create_task_group() as tasks:
            for name in list_tenant_names(self.tenants.settings):
                tasks.start_soon(self.restore_by_name, name)

    async def restore_by_name(self, name: str) -> None:
        try:
            tenant = await self.tenants.get_tenant(name)
            records = await anyio.to_thread.run_sync(_read, get_folder(tenant))
        except (HotdeskError, OSError) as e:
            self.unread.add(name)
            log(e)
            return
        self.unread.discard(name)
        await self.restore_tenant(tenant, records)

    async def restore_tenant(self, tenant: Tenant, records: Sequence[LiveSandbox]) -> None:
        end = time.monotonic() + ORPHAN_SECONDS
        self.missing |= {each.id: MissingSandbox(tenant, each, end) for each in records}
        found = await _get_cluster(tenant).settle([DeskId(each.desk) for each in records], self.settle_seconds)
        for record in records:
            if (desk := found.get(DeskId(record.desk))) is not None:
                await self.take_up(self.missing[record.id], desk)

    async def find_missing(self) -> None:
        while True:
            await anyio.sleep(_LOOK_INTERVAL_S)
            async with anyio.create_task_group() as tasks:
                for name in [each for each in self.unread if each in self.tenants.open]:
                    tasks.start_soon(self.restore_by_name, name)
                for each in list(self.missing.values()):
                    tasks.start_soon(self.look_for, each)

    async def look_for(self, missing: MissingSandbox) -> None:
        """Restore a sandbox if its node has the desk; forget it if the node does not, or did not return in time."""
        cluster, is_over = _get_cluster(missing.tenant), time.monotonic() > missing.end
        try:
            if (node := cluster.nodes.find(missing.desk)) is not None:
                if await cluster.on(node).has_desk(missing.desk):
                    adopted = cluster.desks.get(missing.desk)
                    await self.take_up(missing, adopted or await cluster.take_over(missing.desk))
                    return
                is_over = True
        except HotdeskError as e:
            LOG.write_seldom("error", describe_error(e), ("missing", missing.record.id))
        if is_over:
            await self.forget(missing)

    async def forget(self, missing: MissingSandbox) -> None:
        """Remove a record whose desk does not exist; if the desk turns up all the same, it is burnt."""
        _get_cluster(missing.tenant).give_up(missing.desk)
        self.missing.pop(missing.record.id, None)
        with report_failure(missing.tenant):
            await anyio.to_thread.run_sync(
                private_files.remove, get_folder(missing.tenant), f"{missing.record.id}.json"
            )

    async def take_up(self, missing: MissingSandbox, desk: Desk) -> None:
        """Restore a sandbox; one that is no longer allowed is burnt. If this server fails now, it is tried again."""
        tenant, record, cluster = missing.tenant, missing.record, _get_cluster(missing.tenant)
        try:
            scope = await self.saved.find_scope(record, tenant.name)
            sandbox = _make_sandbox(record, tenant, desk, self.sandboxes, scope)
        except (E2bError, BriefError) as e:
            log(e)
            await self.reject(missing)
            return
        except (HotdeskError, OSError) as e:
            cluster.expected.add(missing.desk)  # its node may be lost and return meanwhile
            LOG.write_seldom("error", describe_error(e), ("missing", record.id))
            return
        tenant.host.count(missing.desk, sandbox.spec)
        cluster.give_up(missing.desk)
        self.missing.pop(record.id, None)
        self.sandboxes.add(sandbox)
        self.written[sandbox.id] = (tenant, b"")

    async def reject(self, missing: MissingSandbox) -> None:
        await self.forget(missing)
        try:
            await missing.tenant.host.burn(missing.desk)
        except HotdeskError as e:
            log(e)

    def require_known(self, sandbox: str, tenant: str | None = None) -> None:
        """Raise a retryable error if a sandbox is not found yet; with `tenant`, only for one that may be its own."""
        found = self.missing.get(sandbox)
        if tenant in self.unread or (found is not None and tenant in (None, found.tenant.name)):
            raise make_not_connected_error(sandbox)


def _get_cluster(tenant: Tenant) -> ClusterRuntime:
    assert isinstance(tenant.host, ClusterHost)
    return tenant.host.cluster


def make_record(sandbox: Sandbox) -> LiveSandbox:
    spec = sandbox.spec
    return LiveSandbox(
        desk=sandbox.desk.id, image=spec.image, wall=spec.wall, cpus=spec.cpus, memory=spec.memory,
        **describe(sandbox, *_FIELDS),
    )  # fmt: skip


def _make_sandbox(record: LiveSandbox, tenant: Tenant, desk: Desk, sandboxes: Sandboxes, scope: Scope) -> Sandbox:
    wall = record.wall if record.wall in WALLS else ""
    spec = replace(sandboxes.make_spec(record.image, record.env, wall), cpus=record.cpus, memory=record.memory)
    same = record.model_dump(include={*COMMON, *_FIELDS})
    return Sandbox(desk, tenant, spec=spec, scope=scope, revoked=set(record.revoked), **same)


def get_folder(tenant: Tenant) -> Path:
    return tenant.settings.lib / "serve" / FOLDER


def _write(place: Path, name: str, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, f"{name}.json", data)


def _read(place: Path) -> list[LiveSandbox]:
    """Read records; invalid or incomplete ones are removed."""
    found: list[LiveSandbox] = []
    for name in sorted(os.listdir(place))[:_MAX_RECORDS] if place.is_dir() else []:
        try:
            record = LiveSandbox.model_validate_json(private_files.read(place, name) or b"")
            if name == f"{record.id}.json":
                found.append(record)
                continue
        except (HotdeskError, ValidationError):
            pass
        with suppress(HotdeskError):
            private_files.remove(place, name)
    return found
