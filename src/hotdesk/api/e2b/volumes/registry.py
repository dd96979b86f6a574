"""The volumes of every tenant: names, tokens and sizes in a file below its own state directory.

A record is written before its volume is made and removed after its volume is deleted, so that a crash leaves no volume
without a record.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from pathlib import Path

import anyio
from pydantic import TypeAdapter, ValidationError

from hotdesk.api.e2b.hibernate import list_tenant_names
from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandboxes
from hotdesk.api.e2b.volumes.processes import VolumeProcesses
from hotdesk.api.quotas import QuotaError, QuotaShare
from hotdesk.api.tenants import Tenant, Tenants, get_settings
from hotdesk.dataclass import dataclass
from hotdesk.desk.owner.keeper_client import SAVE_SECONDS
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import DeskId, new_id
from hotdesk.errors import DeskError, HostError, HotdeskError, make_printable
from hotdesk.event import VolumeChanged
from hotdesk.linux import private_files

_FILE = "volumes.json"
_MAX_PER_TENANT = 1000
_RETRY_INTERVAL_S = 30.0
NAME_SHAPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class VolumeRecord:
    id: str
    name: str
    token: str = field(repr=False)
    """The token that callers of the content API must send."""
    size: int
    created: float
    ready: bool = False
    """Whether it can be used; if not, it is being made or deleted. Unfinished ones are deleted later."""

    @property
    def view(self) -> dict[str, object]:
        return {"volumeID": self.id, "name": self.name, "size": self.size}


_RECORDS = TypeAdapter(list[VolumeRecord])


class VolumeRegistry:
    def __init__(self, tenants: Tenants, sandboxes: Sandboxes) -> None:
        self.tenants = tenants
        self.sandboxes = sandboxes
        self.processes = VolumeProcesses()
        self.records: dict[str, tuple[str, VolumeRecord]] = {}
        """All volumes by id, with the tenant of each."""
        self.shares: dict[str, QuotaShare] = {}
        """Volumes' shares of their tenants' quotas."""
        self.mounting: Counter[str] = Counter()
        """Volumes that sandboxes are about to mount."""
        self.copying: Counter[str] = Counter()
        """Volumes that are being copied, and cannot be used meanwhile."""
        self.changing: set[str] = set()
        """Volumes that are being made or deleted."""
        self.writing = anyio.Lock()

    # -- at the start ---------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the volumes of every tenant; a damaged file affects only its tenant."""
        for tenant in list_tenant_names(self.tenants.settings):
            try:
                for record in _read(_get_folder(get_settings(self.tenants.settings, tenant).lib)):
                    self.records[record.id] = (tenant, record)
                    self.shares[record.id] = self.tenants.quotas.count(tenant, disk=record.size)
            except (HotdeskError, OSError) as e:
                log(e)

    async def run(self) -> None:
        """Delete volumes that this server or an earlier one did not finish making or deleting; a failure is retried."""
        while True:
            for name, record in list(self.records.values()):
                if not record.ready and record.id not in self.changing:
                    try:
                        await self.finish(await self.tenants.get_tenant(name), record)
                    except (HotdeskError, OSError) as e:
                        log(e)
            await anyio.sleep(_RETRY_INTERVAL_S)

    # -- lookup ---------------------------------------------------------------------------------------------------

    def of(self, tenant: str) -> list[VolumeRecord]:
        mine = [record for name, record in self.records.values() if name == tenant and record.ready]
        return sorted(mine, key=lambda record: (record.created, record.id))

    def get(self, tenant: str, volume: str) -> VolumeRecord:
        """Return a tenant's volume; 404 for another tenant's, as for an unknown one."""
        name, record = self.records.get(volume, ("", None))
        if record is None or name != tenant or not record.ready:
            raise E2bError(404, f"volume '{make_printable(volume[:64])}' not found")
        return record

    def find(self, tenant: str, reference: str) -> VolumeRecord:
        for record in self.of(tenant):
            if record.name == reference:
                return record
        return self.get(tenant, reference)

    def resolve(self, tenant: str, mounts: Iterable[tuple[str, str]]) -> dict[str, VolumeRecord]:
        """Return a sandbox's volumes by path; `mounts` has names and paths."""
        found: dict[str, VolumeRecord] = {}
        for name, path in mounts:
            record = self.find(tenant, name)
            if path in found:
                raise E2bError(400, f"only one volume can be mounted at {make_printable(path[:80])}")
            found[path] = record
        return found

    @contextmanager
    def reserve(self, volumes: Iterable[str]) -> Iterator[None]:
        """Prevent the deletion of volumes while a sandbox that mounts them opens."""
        ids = list(volumes)
        if any(self.copying[each] for each in ids):
            raise E2bError(409, "the volume is being copied; try again when that is done")
        self.mounting.update(ids)
        try:
            yield
        finally:
            self.mounting.subtract(ids)

    def list_users(self, volume: str) -> Sequence[str]:
        return [each.id for each in self.sandboxes.by_id.values() if volume in each.spec.volumes.values()]

    def require_unused(self, record: VolumeRecord) -> None:
        """Refuse a volume that a sandbox uses or that is being copied."""
        if users := self.list_users(record.id):
            raise E2bError(409, f"volume '{record.name}' is mounted in sandbox '{users[0]}'; kill that sandbox first")
        if self.mounting[record.id] or self.copying[record.id]:
            raise E2bError(409, f"volume '{record.name}' is in use; try again later")

    # -- making and deleting --------------------------------------------------------------------------------------

    async def create(self, tenant: Tenant, name: str, source: str, by: str) -> VolumeRecord:
        """Make a volume, empty or with the files of another; it counts against the tenant's disk quota."""
        if not NAME_SHAPE.fullmatch(name):
            raise E2bError(
                400,
                "a volume name must have 1 to 128 characters: letters, digits, '.', '_' and '-', with a letter or "
                "digit first",
            )
        origin = self.find(tenant.name, source) if source else None
        if origin is not None:
            await tenant.host.wait_for_ends()
            self.require_unused(origin)
        size = origin.size if origin is not None else self.sandboxes.serving.volume_size
        record = VolumeRecord(new_id(), name, secrets.token_hex(32), size, round(time.time(), 6))
        self.add(tenant.name, record)
        with self.hold_change(record.id):
            try:
                with self.hold_copy(origin):
                    return await self.make(tenant, record, origin, by)
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(HotdeskError):  # `run` tries again
                    await self.finish(tenant, record)
                raise

    @contextmanager
    def hold_change(self, volume: str) -> Iterator[None]:
        """Prevent others from deleting a volume that is being made or deleted."""
        self.changing.add(volume)
        try:
            yield
        finally:
            self.changing.discard(volume)

    def add(self, tenant: str, record: VolumeRecord) -> None:
        mine = [each for name, each in self.records.values() if name == tenant]
        if any(each.name == record.name for each in mine):
            raise E2bError(409, f"a volume '{record.name}' exists already; choose another name")
        if len(mine) >= _MAX_PER_TENANT:
            raise E2bError(429, f"the limit of {_MAX_PER_TENANT} volumes is reached; delete some")
        try:
            self.shares[record.id] = self.tenants.quotas.take(tenant, disk=record.size)
        except QuotaError as e:
            raise E2bError(429, str(e)) from None
        self.records[record.id] = (tenant, record)

    @contextmanager
    def hold_copy(self, origin: VolumeRecord | None) -> Iterator[None]:
        if origin is None:
            yield
            return
        self.copying[origin.id] += 1
        try:
            yield
        finally:
            self.copying[origin.id] -= 1

    async def make(self, tenant: Tenant, record: VolumeRecord, origin: VolumeRecord | None, by: str) -> VolumeRecord:
        await self.write(tenant)
        await self.note(tenant, record, "made", by)
        if origin is not None:
            await self.processes.end(origin.id)
        request = KeeperRequest(
            "make-volume", DeskId(record.id), size=record.size, origin=origin.id if origin is not None else ""
        )
        try:
            await tenant.host.get_keeper_runtime().keeper.ask(request, 0, SAVE_SECONDS)
        except DeskError as e:
            raise E2bError(409, str(e)) from None
        ready = replace(record, ready=True)
        self.records[record.id] = (tenant.name, ready)
        await self.write(tenant)
        return ready

    async def destroy(self, tenant: Tenant, volume: str, by: str) -> None:
        await tenant.host.wait_for_ends()  # a desk that is being burnt has it mounted
        record = self.get(tenant.name, volume)
        self.require_unused(record)
        with anyio.CancelScope(shield=True), self.hold_change(volume):
            self.records[volume] = (tenant.name, replace(record, ready=False))
            await self.write(tenant)
            await self.note(tenant, record, "removed", by)
            await self.finish(tenant, record)

    async def finish(self, tenant: Tenant, record: VolumeRecord) -> None:
        await self.processes.end(record.id)
        await tenant.host.get_keeper_runtime().keeper.ask(KeeperRequest("drop-volume", DeskId(record.id)))
        self.records.pop(record.id, None)
        if (share := self.shares.pop(record.id, None)) is not None:
            share.free()
        await self.write(tenant)

    async def note(self, tenant: Tenant, record: VolumeRecord, what: str, by: str) -> None:
        await tenant.host.prepare()
        event = VolumeChanged(new_id(), record.id, what, by, record.name, record.size)  # type: ignore[arg-type]
        await anyio.to_thread.run_sync(tenant.host.note, event)

    async def write(self, tenant: Tenant) -> None:
        async with self.writing:
            mine = [asdict(record) for name, record in self.records.values() if name == tenant.name]
            data = json.dumps(mine).encode()
            await anyio.to_thread.run_sync(_write, _get_folder(tenant.settings.lib), data)


def show(record: VolumeRecord) -> Mapping[str, object]:
    return {**record.view, "token": record.token}


def _get_folder(lib: Path) -> Path:
    return lib / "serve"


def _read(place: Path) -> list[VolumeRecord]:
    if not place.is_dir():
        return []
    try:
        return _RECORDS.validate_json(private_files.read(place, _FILE) or b"[]")
    except ValidationError:
        raise HostError(
            f"{place / _FILE} is damaged; restore it from a backup, or move it away to start without volumes"
        ) from None


def _write(place: Path, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, _FILE, data)
