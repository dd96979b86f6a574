"""E2B's secrets, stored in the tenant's vault under a prefix; this API reaches no other secret of the vault.

A value is written and never read back. A program refers to it as `${e2b.secrets.NAME}` in a header that its network
rules attach; the door inserts the value on the way out, and no sandbox sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import anyio
from pydantic import Field, TypeAdapter, ValidationError, field_validator
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from hotdesk.api.caller import Caller
from hotdesk.api.e2b import network
from hotdesk.api.e2b.control import paging, requests
from hotdesk.api.e2b.control.views import as_time
from hotdesk.api.e2b.responses import E2bError, answer, answer_empty, make_unknown_route_error
from hotdesk.api.e2b.transforms import VAULT_PREFIX
from hotdesk.api.launch.launcher_client import LauncherClient
from hotdesk.api.tenants import Tenant
from hotdesk.desk.seam import new_id
from hotdesk.errors import HostError, make_printable
from hotdesk.event import VaultChanged
from hotdesk.linux import private_files
from hotdesk.vault import VaultEntry, exists, ls
from hotdesk.vault.kinds import MAX_VALUE_BYTES

_FILE = "secrets.json"
_NO_POWER = (
    "this key lacks the power 'vault'; use a key created with `hotdesk key new --name NAME --power sandboxes --power "
    "vault`"
)
_ID_PREFIX = "sec_"
_MAX_SECRETS = 1000
_MAX_METADATA, _MAX_METADATA_BYTES = 32, 8192
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_METADATA = TypeAdapter(dict[str, dict[str, str]])


class SecretValue(requests.Body):
    """The new value of a secret."""

    value: Annotated[str, Field(min_length=1, max_length=MAX_VALUE_BYTES, repr=False)]
    metadata: Annotated[dict[str, str], Field(max_length=_MAX_METADATA)] | None = None

    @field_validator("metadata")
    @classmethod
    def check_metadata(cls, metadata: dict[str, str] | None) -> dict[str, str] | None:
        pairs = [(len(name.encode()), len(value.encode())) for name, value in (metadata or {}).items()]
        if any(name > 128 or value > 1024 for name, value in pairs) or sum(map(sum, pairs)) > _MAX_METADATA_BYTES:
            raise ValueError("metadata is limited to 128 bytes per name, 1024 bytes per value and 8192 bytes in total")
        return metadata


class NewSecretValue(SecretValue):
    """A secret to create."""

    name: requests.Name


class E2bSecrets:
    def __init__(self, launcher: LauncherClient) -> None:
        self.launcher = launcher
        """Writes to vaults; this process may not."""
        self.writing = anyio.Lock()

    async def respond(self, caller: Caller, tenant: Tenant, request: Request, rest: list[str]) -> Response:
        if not caller.may("vault"):
            raise E2bError(403, _NO_POWER)
        match request.method, rest:
            case "GET", []:
                return await self.ls(tenant, request.query_params)
            case "POST", []:
                return await self.create(caller, tenant, await requests.read(request, NewSecretValue))
            case "GET", [name]:
                return answer(await self.describe(tenant, _parse(name)))
            case "POST", [name]:
                body = await requests.read(request, SecretValue)
                await self.find(tenant, _parse(name))
                return answer(await self.put(caller, tenant, _parse(name), body))
            case "DELETE", [name]:
                return await self.destroy(caller, tenant, _parse(name))
        raise make_unknown_route_error()

    async def ls(self, tenant: Tenant, query: QueryParams) -> Response:
        found = await self.list_entries(tenant)
        page, headers = paging.cut(
            found.items(), lambda each: (each[1].created, each[0]), paging.read_page_request(query)
        )
        metadata = await anyio.to_thread.run_sync(_read, _get_folder(tenant))
        return answer([_describe_secret(name, entry, metadata) for name, entry in page], headers=headers)

    async def create(self, caller: Caller, tenant: Tenant, body: NewSecretValue) -> Response:
        name = _parse(body.name)
        found = await self.list_entries(tenant)
        if name in found:
            raise E2bError(409, f"a secret '{name}' exists already; update it instead")
        if len(found) >= _MAX_SECRETS:
            raise E2bError(429, f"the limit of {_MAX_SECRETS} secrets is reached; delete some")
        return answer(await self.put(caller, tenant, name, body), 201)

    async def put(self, caller: Caller, tenant: Tenant, name: str, body: SecretValue) -> dict[str, object]:
        stored = VAULT_PREFIX + name
        await self.note(tenant, VaultChanged(new_id(), stored, "put", caller.described))
        await self.launcher.keep_secret(tenant.name, stored, "token", body.value.encode("utf-8", "surrogatepass"))
        if body.metadata is not None:
            await self.write(tenant, name, body.metadata)
        return await self.describe(tenant, name)

    async def destroy(self, caller: Caller, tenant: Tenant, name: str) -> Response:
        """Delete a secret; sandboxes can no longer use it."""
        await self.find(tenant, name)
        stored = VAULT_PREFIX + name
        await self.note(tenant, VaultChanged(new_id(), stored, "removed", caller.described))
        await self.launcher.forget_secret(tenant.name, stored)
        await self.write(tenant, name, None)
        return answer_empty()

    async def check_placeholders(self, caller: Caller, tenant: Tenant, settings: Mapping[str, object] | None) -> None:
        """Refuse network rules that name missing secrets, or any secret if the key may not use the vault."""
        named = network.list_secrets(settings or {})
        if not named:
            return
        if not caller.may("vault"):
            raise E2bError(403, _NO_POWER)
        if missing := sorted(named - (await self.list_entries(tenant)).keys()):
            raise E2bError(400, f"there is no secret '{make_printable(missing[0][:80])}'; create it first")

    async def note(self, tenant: Tenant, event: VaultChanged) -> None:
        await tenant.host.prepare()
        await anyio.to_thread.run_sync(tenant.host.note, event)

    async def list_entries(self, tenant: Tenant) -> dict[str, VaultEntry]:
        folder = tenant.settings.lib / "keys"
        found = await anyio.to_thread.run_sync(lambda: ls(folder) if exists(folder) else [])
        prefix = VAULT_PREFIX
        return {each.name.removeprefix(prefix): each for each in found if each.name.startswith(prefix)}

    async def find(self, tenant: Tenant, name: str) -> VaultEntry:
        found = (await self.list_entries(tenant)).get(name)
        if found is None:
            raise E2bError(404, f"secret '{make_printable(name[:64])}' not found")
        return found

    async def describe(self, tenant: Tenant, name: str) -> dict[str, object]:
        entry = await self.find(tenant, name)
        return _describe_secret(name, entry, await anyio.to_thread.run_sync(_read, _get_folder(tenant)))

    async def write(self, tenant: Tenant, name: str, metadata: dict[str, str] | None) -> None:
        """Store a secret's metadata; `None` deletes it."""
        async with self.writing:
            table = await anyio.to_thread.run_sync(_read, _get_folder(tenant))
            table = {each: pairs for each, pairs in table.items() if each != name}
            if metadata:
                table[name] = metadata
            await anyio.to_thread.run_sync(_write, _get_folder(tenant), json.dumps(table).encode())


def _parse(reference: str) -> str:
    name = reference.removeprefix(_ID_PREFIX).lower()
    if not _NAME.fullmatch(name):
        raise E2bError(
            400 if reference else 404,
            "a secret name must have 1 to 60 characters of a-z, 0-9 and -, such as openai-key",
        )
    return name


def _describe_secret(name: str, entry: VaultEntry, metadata: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    return {
        "secretID": _ID_PREFIX + name,
        "name": name,
        "currentVersion": entry.version,
        "metadata": dict(metadata.get(name, {})),
        "createdAt": as_time(entry.created),
        "updatedAt": as_time(entry.changed),
    }


def _get_folder(tenant: Tenant) -> Path:
    return tenant.settings.lib / "serve"


def _read(place: Path) -> dict[str, dict[str, str]]:
    if not place.is_dir():
        return {}
    try:
        return _METADATA.validate_json(private_files.read(place, _FILE) or b"{}")
    except ValidationError:
        raise HostError(
            f"{place / _FILE} is damaged; restore it from a backup, or move it away to start without metadata"
        ) from None


def _write(place: Path, data: bytes) -> None:
    private_files.make_folder(place)
    private_files.write(place, _FILE, data)
