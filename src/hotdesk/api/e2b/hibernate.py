"""Sandboxes that are left when a server ends, for the next one to continue: files as images, all else as records.

Behind a wall that keeps memory the desk itself is hibernated instead, and its programs continue; a sandbox that is
paused in this way has its record at once, and outlasts a server that is killed.

Each image is recorded as a deleted snapshot's before it is made. So it exists for as long as a sandbox uses it, and
what a crash leaves behind is removed like any other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import groupby
from pathlib import Path
from typing import Literal

import anyio
from pydantic import ValidationError

from hotdesk.api.caller import DEFAULT_TENANT
from hotdesk.api.e2b import network, templates
from hotdesk.api.e2b.control.snapshots import PREFIX, TenantSnapshots, new_word
from hotdesk.api.e2b.envd.state import EnvdState
from hotdesk.api.e2b.identity import build_tokens
from hotdesk.api.e2b.record import COMMON, SandboxRecord, SavedSandbox, describe
from hotdesk.api.e2b.responses import E2bError, log, make_not_found_error
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes, can_keep_memory, has_ended
from hotdesk.api.e2b.templates import parse_wall
from hotdesk.api.log import LOG
from hotdesk.api.quotas import QuotaError, QuotaShare
from hotdesk.api.tenants import Tenant, Tenants, get_settings
from hotdesk.brief.data import CLOSED, Scope
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, DeskError, DeskGone, HostError, HotdeskError
from hotdesk.linux import private_files

FOLDER = "left"
_SAVE_TIMEOUT_S = 60.0
"""Seconds a server has to save its sandboxes; those not saved by then are burnt."""
_RETRY_INTERVAL_S = 1.0
"""Seconds between two attempts to write or remove a record."""
AT_ONCE = 4
"""Sandboxes whose files are copied at the same time."""
_MAX_RECORDS = 10_000
"""Maximum number of records of one tenant that are read."""
_FIELDS = ("until", "mounts")
"""Fields of a record, beside the common ones, that are copied from its sandbox."""


@dataclass(frozen=True, slots=True)
class SavedSandboxes:
    """Saves sandboxes that outlive their desks, and restores them."""

    sandboxes: Sandboxes
    snapshots: TenantSnapshots
    tenants: Tenants
    records: dict[str, tuple[SavedSandbox, QuotaShare]] = field(default_factory=dict)
    """Sandboxes without a desk: their records, and their shares of the disk quota."""
    outdated: dict[str, Sandbox] = field(default_factory=dict)
    """Sandboxes whose records on disk could not be written or removed, by id."""
    seconds: float = _SAVE_TIMEOUT_S

    @property
    def longest(self) -> float:
        return self.sandboxes.serving.longest

    # -- at the start ---------------------------------------------------------------------------------------------

    def find(self) -> None:
        """Restore the sandboxes that earlier servers left; expired ones are deleted."""
        for name in list_tenant_names(self.tenants.settings):
            try:
                settings = get_settings(self.tenants.settings, name)
                tenant = Tenant(name, settings, self.tenants.make_host(settings, name))  # its host is not started
                self.find_for_tenant(tenant)
                self.snapshots.list_all(tenant)
            except (HotdeskError, OSError) as e:
                log(e)
        self.snapshots.deleted.set()

    def find_for_tenant(self, tenant: Tenant) -> None:
        """Restore a tenant's sandboxes; one that fails does not affect the others."""
        for record in read(get_folder(tenant)):
            try:
                self.take_up(tenant, record)
            except HotdeskError as e:
                log(e)

    def take_up(self, tenant: Tenant, record: SavedSandbox) -> None:
        until = min(record.until, record.started + self.longest)
        if until <= time.time() or record.id in self.sandboxes.by_id or record.is_desk_gone(tenant.settings):
            private_files.remove(get_folder(tenant), _get_file_name(record.id))
            return
        if record.is_image_gone(tenant.settings):
            say(f"sandbox {record.id} has ended: its files were removed; its record is removed when it expires")
            return
        same = {**record.model_dump(include={*COMMON, *_FIELDS}), "until": until, "saved_image": record.image}
        wall = parse_wall(record.template, record.metadata)
        spec = self.sandboxes.make_spec(record.base or record.image, record.env, wall)
        spec = replace(spec, volumes=record.volumes)
        mode: Literal["full", "filesystem"] = "full" if record.desk else "filesystem"
        sandbox = Sandbox(None, tenant, spec=spec, scope=CLOSED, state="paused", pause_mode=mode, **same)
        sandbox.revoked.update(record.revoked)
        self.count(sandbox, record)
        self.sandboxes.add(sandbox)

    def count(self, sandbox: Sandbox, record: SavedSandbox) -> None:
        share = self.tenants.quotas.count(sandbox.tenant.name, disk=sandbox.spec.disk)
        self.records[sandbox.id] = (record, share)

    # -- while it runs --------------------------------------------------------------------------------------------

    async def open(self, sandbox: Sandbox) -> None:
        """Open a desk with a sandbox's files, or wake its hibernated one; then remove its record."""
        record, share = self.records[sandbox.id]
        scope = await self.find_scope(record, sandbox.tenant.name)
        tenant = await self.tenants.get_tenant(sandbox.tenant.name)
        rest = max(1.0, sandbox.started + self.longest - time.time())
        spec = tenant.host.route(replace(sandbox.spec, deadline=rest, idle=rest))
        share.free()
        try:
            if record.desk:
                desk = await tenant.host.wake(DeskId(record.desk), scope, spec)
            else:
                desk = await tenant.host.open(spec, scope)
                await self.sandboxes.begin(tenant, [desk], spec.image)
        except QuotaError as e:
            raise E2bError(429, str(e)) from None
        finally:
            if sandbox.id in self.records:
                self.count(sandbox, record)
        with anyio.CancelScope(shield=True):
            if self.sandboxes.by_id.get(sandbox.id) is not sandbox:
                await tenant.host.burn(desk.id)
                raise make_not_found_error(sandbox.id)
            sandbox.opened, sandbox.tenant, sandbox.spec, sandbox.scope = desk, tenant, spec, scope
            await self.forget(sandbox)
        if record.desk:
            await templates.renew_variables(desk, spec.image)

    async def find_scope(self, record: SandboxRecord, tenant: str) -> Scope:
        """Return a sandbox's scope: its program's rules under the operator's current settings."""
        if record.network is None and record.internet is None:
            return self.sandboxes.defaults.scope
        rules: dict[str, list[object]] = {}
        for host, name, value in record.headers:
            rules.setdefault(host, []).append({"transform": {"headers": {name: value}}})
        config: Mapping[str, object] = {**(record.network or {}), "rules": rules, "egressProxy": record.egress_proxy}
        serving = self.sandboxes.serving
        tokens = build_tokens(serving, tenant, record.iam)
        return await network.find_scope(serving, config, record.internet, tokens)

    async def note_pause(self, sandbox: Sandbox) -> None:
        """Write the record of a hibernated sandbox at once, so that it survives a killed server."""
        sandbox.until = sandbox.started + self.longest
        sandbox.saved_image = PREFIX + new_word()
        await self.update_record(sandbox)

    async def record(self, sandbox: Sandbox) -> None:
        """Write the record of a sandbox on disk again; one that is being paused or resumed is written afterwards."""
        if not sandbox.saved_image:
            return
        async with sandbox.turning:
            if sandbox.id in self.records:
                record, share = self.records[sandbox.id]
                record = record.model_copy(update={"revoked": sorted(sandbox.revoked)})
                self.records[sandbox.id] = (record, share)
            if self.make_record(sandbox) is not None:
                await self.update_record(sandbox)

    def make_record(self, sandbox: Sandbox) -> SavedSandbox | None:
        """Return the record that a sandbox must have on disk; `None` if it runs or was killed."""
        if self.sandboxes.by_id.get(sandbox.id) is not sandbox:
            return None
        if sandbox.id in self.records:
            return self.records[sandbox.id][0]
        is_on_disk = sandbox.saved_image and sandbox.opened is not None
        return make_record(sandbox, sandbox.desk.id) if is_on_disk else None

    async def update_record(self, sandbox: Sandbox) -> None:
        """Write or remove a sandbox's record, even if the caller is cancelled; if that fails it is tried again."""
        place, name, record = get_folder(sandbox.tenant), _get_file_name(sandbox.id), self.make_record(sandbox)
        with anyio.CancelScope(shield=True):
            try:
                if record is not None:
                    await anyio.to_thread.run_sync(write, place, name, record.model_dump_json().encode())
                if record is None or self.make_record(sandbox) is None:  # it was killed meanwhile
                    await anyio.to_thread.run_sync(remove, place, name)
            except BaseException:
                self.outdated[sandbox.id] = sandbox
                raise
            self.outdated.pop(sandbox.id, None)

    async def run(self) -> None:
        while True:
            await anyio.sleep(_RETRY_INTERVAL_S)
            await self.retry()

    async def retry(self) -> None:
        """Update the records that could not be updated before, except of sandboxes being paused or resumed."""
        for sandbox in list(self.outdated.values()):
            if not sandbox.turning.locked():
                async with sandbox.turning:
                    with report_failure(sandbox.tenant):
                        await self.update_record(sandbox)

    def retain(self, sandbox: Sandbox) -> None:
        """Keep a hibernated sandbox whose desk has ended, as an earlier server's is kept."""
        record = make_record(sandbox, sandbox.desk.id)
        sandbox.opened, sandbox.room = None, EnvdState()
        self.count(sandbox, record)

    async def note_resume(self, sandbox: Sandbox) -> None:
        """Remove a sandbox's record; a failure is logged, because the sandbox itself has continued or ended."""
        sandbox.saved_image = ""
        try:
            await self.update_record(sandbox)
        except (HotdeskError, OSError) as e:
            log(e)

    async def discard(self, sandbox: Sandbox) -> None:
        """Remove everything of a sandbox that ends without a desk."""
        record = self.records[sandbox.id][0] if sandbox.id in self.records else None
        try:
            if record is not None and record.desk:
                tenant = await self.tenants.get_tenant(sandbox.tenant.name)
                await tenant.host.burn(DeskId(record.desk))
        finally:
            await self.forget(sandbox)

    async def forget(self, sandbox: Sandbox) -> None:
        """Remove a sandbox's record; its image is removed when nothing uses it."""
        found = self.records.pop(sandbox.id, None)
        if found is not None:
            found[1].free()
        if found is not None or sandbox.saved_image or sandbox.id in self.outdated:
            await self.note_resume(sandbox)
        if sandbox.spec.image.startswith(PREFIX):
            self.snapshots.deleted.set()

    # -- in the end -----------------------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Save every sandbox as if it were paused; those that cannot be saved in time are burnt with their desks."""
        await self.retry()
        for sandbox in self.sandboxes.by_id.values():
            self.sandboxes.retain(sandbox)
        here = [each for each in self.sandboxes.by_id.values() if each.opened is not None and not has_ended(each)]
        if not here:
            return
        say(f"sandboxes being hibernated: {len(here)}; a second stop signal burns them instead")
        for sandbox in here:
            self.stop(sandbox)
        saved: list[Sandbox] = []
        with anyio.move_on_after(self.seconds):
            async with anyio.create_task_group() as tasks:
                places = anyio.CapacityLimiter(AT_ONCE)
                for _, group in groupby(sorted(here, key=_describe_owner), _describe_owner):
                    tasks.start_soon(self.keep_all, list(group), places, saved)
        if burning := len(here) - len(saved):
            say(f"sandboxes that could not be hibernated and were burnt: {burning}")
        say(f"sandboxes hibernated: {len(saved)}")

    async def burn_paused(self) -> None:
        """Burn sandboxes that this server hibernated, if none are left for the next one; keepers burn the others."""
        for sandbox in [each for each in self.sandboxes.by_id.values() if each.opened is not None and each.saved_image]:
            await self.sandboxes.kill(sandbox)
        await self.retry()

    def stop(self, sandbox: Sandbox) -> None:
        """Stop a sandbox's clock; one that its timeout would have killed expires when it would have been killed."""
        self.outdated.pop(sandbox.id, None)  # its record is written once the sandbox is saved
        killed = sandbox.state == "running" and not sandbox.auto_pause
        sandbox.until = sandbox.ends if killed else sandbox.started + self.longest
        if sandbox.state == "running":
            sandbox.state, sandbox.pause_mode, sandbox.ends = "paused", "full", time.time()
        sandbox.saved_image = PREFIX + new_word()

    async def keep_all(self, group: Sequence[Sandbox], places: anyio.CapacityLimiter, saved: list[Sandbox]) -> None:
        try:
            await self.snapshots.expect(group[0].tenant, *(each.saved_image for each in group))
        except (HotdeskError, OSError) as e:
            log(e)
            return
        async with anyio.create_task_group() as tasks:
            for sandbox in group:
                tasks.start_soon(self.keep, sandbox, places, saved)

    async def keep(self, sandbox: Sandbox, places: anyio.CapacityLimiter, saved: list[Sandbox]) -> None:
        """Save a sandbox's files, then write its record."""
        async with places, sandbox.turning:
            try:
                desk = await self.hibernate(sandbox)
                if not desk:
                    await sandbox.desk.pause(memory=False)
                    await sandbox.desk.save(sandbox.saved_image)
                data = make_record(sandbox, desk).model_dump_json().encode()
                await anyio.to_thread.run_sync(write, get_folder(sandbox.tenant), _get_file_name(sandbox.id), data)
            except (HotdeskError, OSError, ValueError) as e:
                log(e)
                return
        saved.append(sandbox)

    async def hibernate(self, sandbox: Sandbox) -> str:
        """Hibernate a sandbox's desk and return the desk's id; empty if it cannot be, or has no programs to keep."""
        if not can_keep_memory(sandbox) or sandbox.pause_mode == "filesystem":
            return ""
        try:
            await sandbox.desk.pause(keep="disk")
        except DeskGone:
            raise
        except (BriefError, DeskError) as e:
            log(e)
            return ""
        return sandbox.desk.id


@contextmanager
def report_failure(tenant: Tenant) -> Iterator[None]:
    """Log why a record of a tenant is not up to date, seldom because each attempt fails alike, and continue."""
    try:
        yield
    except (HotdeskError, OSError, ValueError) as e:
        why = e if isinstance(e, HotdeskError) else type(e).__name__
        LOG.write_seldom(
            "records", f"a record of a sandbox of tenant {tenant.name} cannot be changed: {why}", (tenant.name,)
        )


def make_record(sandbox: Sandbox, desk: str = "") -> SavedSandbox:
    values = describe(sandbox, *_FIELDS) | {"volumes": dict(sandbox.spec.volumes)}
    if desk:
        values |= {"desk": desk, "base": sandbox.spec.image}
    return SavedSandbox(image=sandbox.saved_image, **values)


def _describe_owner(sandbox: Sandbox) -> str:
    return sandbox.tenant.name


def list_tenant_names(settings: Config) -> list[str]:
    return [DEFAULT_TENANT, *sorted(each.name for each in (settings.lib / "tenants").glob("*"))]


def get_folder(tenant: Tenant) -> Path:
    return tenant.settings.lib / "serve" / FOLDER


def _get_file_name(sandbox: str) -> str:
    return f"{sandbox}.json"


def read(place: Path) -> Iterator[SavedSandbox]:
    """Read records; invalid or incomplete ones are removed."""
    for name in sorted(os.listdir(place))[:_MAX_RECORDS] if place.is_dir() else []:
        try:
            record = SavedSandbox.model_validate_json(private_files.read(place, name) or b"")
            if name == _get_file_name(record.id):
                yield record
                continue
        except (HotdeskError, ValidationError):
            pass
        log(HostError(f"the sandbox record {place / name} is damaged; the server removes it"))
        with suppress(HotdeskError):
            private_files.remove(place, name)


def write(place: Path, name: str, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, name, data)


def remove(place: Path, name: str) -> None:
    if place.is_dir():
        private_files.remove(place, name)


def say(line: str) -> None:
    LOG.write("sandboxes", line)
