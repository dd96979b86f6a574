"""Snapshots of the E2B API: images of one tenant, with ids that no other tenant can use."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import anyio
from pydantic import TypeAdapter, ValidationError

from hotdesk.api.e2b.responses import E2bError, log
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.e2b.templates import parse_image_name
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.tenants import Tenant
from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import NAME_SHAPE, get_record_path
from hotdesk.desk.seam import ALPHABET
from hotdesk.errors import BriefError, HostError, HotdeskError, make_printable
from hotdesk.linux import private_files

FILE = "snapshots.json"
PREFIX = "snapshot-"
"""Prefix of the images of snapshots; no template's name may begin with it."""
_TAG = "default"
RETRY_INTERVAL_S = 30.0
"""Seconds between two attempts to delete images that were in use."""
_MAX_SNAPSHOTS = 1000
"""Snapshots one tenant may have."""
SHAPE = re.compile(
    r"(?:(?P<team>[a-z0-9][a-z0-9-]{0,31})/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,127})(?::(?P<tag>[A-Za-z0-9._-]{1,64}))?"
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a sandbox at one moment."""

    id: str
    """The id for programs: `ID:default`, or `TENANT/NAME:default`."""
    image: str
    sandbox: str
    """The id of the sandbox it was taken from."""
    made: float
    named: bool = False
    deleted: bool = False
    """Whether it is deleted: it cannot be found, and its image is removed when no sandbox uses it."""
    user: str = ""
    workdir: str = ""
    """Default user and working folder of programs in its sandboxes, as in the sandbox it was taken from."""

    @property
    def names(self) -> list[str]:
        return [self.id] if self.named else []

    @property
    def view(self) -> dict[str, object]:
        return {"snapshotID": self.id, "names": self.names}


_RECORDS = TypeAdapter(list[Snapshot])


class TenantSnapshots:
    """The snapshots of every tenant, each in a file below its own state directory."""

    def __init__(self, launcher: LauncherClient, sandboxes: Sandboxes) -> None:
        self.launcher = launcher
        """Deletes images; this process may not."""
        self.sandboxes = sandboxes
        self.tenants: dict[str, Tenant] = {}
        self.by_tenant: dict[str, list[Snapshot]] = {}
        self.writing = anyio.Lock()
        self.deleted = anyio.Event()

    async def run(self) -> None:
        """Delete images of deleted snapshots, at once or when the last sandbox that uses them ends."""
        while True:
            with anyio.move_on_after(RETRY_INTERVAL_S):
                await self.deleted.wait()
            self.deleted = anyio.Event()
            for tenant in list(self.tenants.values()):
                try:
                    await self.clear(tenant)
                except (HotdeskError, OSError) as e:
                    log(e)

    def list_all(self, tenant: Tenant) -> list[Snapshot]:
        if tenant.name not in self.by_tenant:
            self.by_tenant[tenant.name] = read(get_folder(tenant))
            self.tenants[tenant.name] = tenant
        return self.by_tenant[tenant.name]

    def of(self, tenant: Tenant) -> dict[str, Snapshot]:
        return {each.id: each for each in self.list_all(tenant) if not each.deleted}

    async def take(self, sandbox: Sandbox, name: str | None) -> Snapshot:
        """Save a sandbox's files as a snapshot; a name that was used before refers to the new one."""
        tenant = sandbox.tenant
        if sandbox.opened is None:
            raise E2bError(409, f"sandbox '{sandbox.id}' is paused; connect to it first, which resumes it")
        if len(self.of(tenant)) >= _MAX_SNAPSHOTS:
            raise E2bError(429, f"the limit of {_MAX_SNAPSHOTS} snapshots is reached; delete some")
        word = f"{tenant.name}/{parse_name(tenant.name, name)}" if name else new_word()
        image = PREFIX + new_word()
        async with sandbox.turning:
            await sandbox.desk.save(image)
        snapshot = Snapshot(f"{word}:{_TAG}", image, sandbox.id, time.time(), bool(name))
        snapshot = replace(snapshot, user=sandbox.user, workdir=sandbox.workdir)
        try:
            await self.drop(tenant, snapshot.id, snapshot)
        except BaseException:  # nothing else would ever remove an image without a record
            with anyio.move_on_after(RETRY_INTERVAL_S, shield=True):
                await self.forget(tenant, snapshot)
            raise
        return snapshot

    async def delete(self, tenant: Tenant, reference: str) -> None:
        found = self.find(tenant, reference)
        if found is None:
            raise E2bError(404, f"template '{make_printable(reference[:64])}' not found")
        await self.drop(tenant, found.id)

    async def drop(self, tenant: Tenant, old: str | None, *new: Snapshot) -> None:
        """Mark the snapshot with the id `old` as deleted and add others, even if the caller is cancelled."""

        def edit(found: list[Snapshot]) -> list[Snapshot]:
            return [*(replace(each, deleted=each.deleted or each.id == old) for each in found), *new]

        with anyio.CancelScope(shield=True):
            await self.change(tenant, edit)
            if old is not None:
                self.deleted.set()

    async def expect(self, tenant: Tenant, *images: str) -> None:
        """Record images that are about to be made; each is removed when no sandbox uses it."""
        now = time.time()
        await self.drop(tenant, None, *(Snapshot(f"{each}:{_TAG}", each, "", now, deleted=True) for each in images))

    async def clear(self, tenant: Tenant) -> None:
        """Remove the images of deleted snapshots, unless sandboxes use them."""
        for each in [each for each in self.list_all(tenant) if each.deleted]:
            if not self.sandboxes.stand_on(each.image) and await self.forget(tenant, each):
                await self.change(tenant, partial(_remove_image, each.image))

    async def forget(self, tenant: Tenant, snapshot: Snapshot) -> bool:
        """Remove a snapshot's image; `False` while sandboxes use it."""
        try:
            await self.launcher.remove_image(tenant.name, snapshot.image)
        except BriefError:
            return not get_record_path(tenant.settings.images, snapshot.image).exists()
        except HotdeskError as e:
            log(e)
            return False
        return True

    def find(self, tenant: Tenant, reference: str) -> Snapshot | None:
        """Return the snapshot that a reference means: its id, or its name with or without team and tag."""
        shape = SHAPE.fullmatch(reference)
        if shape is None or shape["team"] not in (None, tenant.name) or shape["tag"] not in (None, _TAG):
            return None
        snapshots, word = self.of(tenant), shape["name"]
        if shape["team"] is None and (found := snapshots.get(f"{word}:{_TAG}")) is not None:
            return found
        return snapshots.get(f"{tenant.name}/{word}:{_TAG}")

    def find_image(self, tenant: Tenant, template: str) -> str:
        if template.startswith(":") or template.endswith(":"):
            raise E2bError(
                400, f"template '{make_printable(template[:64])}' has an empty name or tag; write NAME or NAME:TAG"
            )
        if (found := self.find(tenant, template)) is not None:
            return found.image
        shape = SHAPE.fullmatch(template)
        if shape and shape["team"] in (None, tenant.name) and shape["tag"] in (None, _TAG, "latest"):
            image = parse_image_name(shape["name"])
            if NAME_SHAPE.fullmatch(image) and not image.startswith(PREFIX):
                return image
        raise E2bError(404, f"template '{make_printable(template[:64])}' not found")

    async def change(self, tenant: Tenant, edit: Callable[[list[Snapshot]], list[Snapshot]]) -> None:
        """Change a tenant's snapshots; if the change cannot be written, they stay as they are."""
        async with self.writing:
            changed = edit(self.list_all(tenant))
            data = json.dumps([asdict(each) for each in changed]).encode()
            await anyio.to_thread.run_sync(write, get_folder(tenant), data)
            self.by_tenant[tenant.name] = changed


def _remove_image(image: str, snapshots: list[Snapshot]) -> list[Snapshot]:
    return [each for each in snapshots if each.image != image]


def parse_name(tenant: str, name: str) -> str:
    shape = SHAPE.fullmatch(name)
    if shape is None or shape["team"] not in (None, tenant) or shape["tag"] not in (None, _TAG):
        raise E2bError(
            400,
            "a snapshot name must be NAME or YOUR_TEAM/NAME, without a tag; NAME has 1 to 128 letters, digits, '.', "
            "'_' and '-'",
        )
    return shape["name"]


def new_word() -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(20))


def get_folder(tenant: Tenant) -> Path:
    return tenant.settings.lib / "serve"


def read(place: Path) -> list[Snapshot]:
    if not place.is_dir():
        return []
    try:
        return _RECORDS.validate_json(private_files.read(place, FILE) or b"[]")
    except ValidationError:
        raise HostError(
            f"{place / FILE} is damaged; restore it from a backup, or move it away to start without snapshots"
        ) from None


def write(place: Path, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, FILE, data)
