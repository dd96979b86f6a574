"""Records of sandboxes whose desks, on nodes, outlive the server: after it was killed, the next one finds them again.

A record is written before its program learns of the sandbox; later changes (its end, its state) are written within half
a second. It has the program's settings, and nothing that was derived from them, as in `hibernate.py`.
"""

from __future__ import annotations

import os
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
from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.tenants import Tenant, Tenants
from hotdesk.brief.data import Scope
from hotdesk.config import WALLS
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import ID_SHAPE, Desk, DeskId
from hotdesk.errors import HotdeskError
from hotdesk.linux import private_files

FOLDER = "live"
SETTLE_SECONDS = 5.0
"""Seconds a new server waits for the nodes of the desks it had."""
_WRITE_INTERVAL_S = 0.5
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


@dataclass(slots=True)
class LiveRecords:
    sandboxes: Sandboxes
    saved: SavedSandboxes
    tenants: Tenants
    written: dict[str, tuple[Tenant, bytes]] = field(default_factory=dict)

    async def run(self) -> None:
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
        """Restore every sandbox whose desk is still on a node; forget the others."""
        for name in list_tenant_names(self.tenants.settings):
            try:
                await self.restore_tenant(await self.tenants.get_tenant(name))
            except (HotdeskError, OSError) as e:
                log(e)

    async def restore_tenant(self, tenant: Tenant) -> None:
        records = await anyio.to_thread.run_sync(_read, get_folder(tenant))
        assert isinstance(tenant.host, ClusterHost)
        found = await tenant.host.cluster.settle([DeskId(each.desk) for each in records], SETTLE_SECONDS)
        for record in records:
            if (desk := found.get(DeskId(record.desk))) is None:
                with report_failure(tenant):
                    await anyio.to_thread.run_sync(private_files.remove, get_folder(tenant), f"{record.id}.json")
            else:
                await self.take_up(tenant, record, desk)

    async def take_up(self, tenant: Tenant, record: LiveSandbox, desk: Desk) -> None:
        """Restore a sandbox; one that is no longer allowed is burnt."""
        try:
            scope = await self.saved.find_scope(record, tenant.name)
            sandbox = _make_sandbox(record, tenant, desk, self.sandboxes, scope)
            tenant.host.count(DeskId(desk.id), sandbox.spec)
        except (HotdeskError, E2bError) as e:
            log(e)
            await tenant.host.burn(DeskId(desk.id))
            return
        self.sandboxes.add(sandbox)
        self.written[sandbox.id] = (tenant, b"")


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
