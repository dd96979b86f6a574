"""Routes of the vault: secrets are stored, replaced and deleted by name; a value is never returned."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Path
from pydantic import Field

from hotdesk.api.native.access.auth import ForVault, RequestContext
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, Limit, Model, Page, paginate
from hotdesk.desk.seam import new_id
from hotdesk.event import VaultChanged
from hotdesk.vault import exists, ls
from hotdesk.vault.kinds import MAX_VALUE_BYTES

router = APIRouter(prefix="/vault", tags=["vault"], responses=document_errors())
_SecretName = Annotated[str, Path(pattern="^[a-z0-9][a-z0-9-]{0,63}$", description="A secret's name.")]


class SecretShown(Model):
    """The public properties of a secret."""

    name: str
    kind: str
    version: int
    created: float
    changed: float


class SecretOrder(Model):
    """A secret to store. Kinds that run a program or call a token server are not available here."""

    kind: Annotated[
        Literal["token", "basic", "totp"],
        Field(description="The kind of secret; the value of `basic` is USER:PASSWORD."),
    ] = "token"
    value: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_VALUE_BYTES, description="The secret value; it is never returned.", repr=False
        ),
    ]


@router.get("", summary="Secrets, by name")
async def list_secrets(context: ForVault, limit: Limit = 100, after: After = "") -> Page[SecretShown]:
    """List the tenant's secrets: names and kinds, never values."""
    some, more = paginate(await _load_secrets(context), lambda each: each.name, limit, after)
    return Page(items=some, next=more)


@router.put("/{name}", summary="Store a secret")
async def keep(context: ForVault, name: _SecretName, order: SecretOrder) -> SecretShown:
    """Store a secret. An existing secret of that name is replaced, with the next version number."""
    value = order.value.encode("utf-8", "surrogatepass")
    await anyio.to_thread.run_sync(context.tenant.host.note, VaultChanged(new_id(), name, "put", context.by))
    await context.native.jobs.launcher.keep_secret(context.tenant.name, name, order.kind, value)
    return await _require_secret(context, name)


@router.delete("/{name}", status_code=204, summary="Delete a secret")
async def forget(context: ForVault, name: _SecretName) -> None:
    """Delete a secret. Desks that were granted it cannot use it any more."""
    await _require_secret(context, name)
    await anyio.to_thread.run_sync(context.tenant.host.note, VaultChanged(new_id(), name, "removed", context.by))
    await context.native.jobs.launcher.forget_secret(context.tenant.name, name)


async def _load_secrets(context: RequestContext) -> list[SecretShown]:
    folder = context.tenant.settings.lib / "keys"
    found = await anyio.to_thread.run_sync(lambda: ls(folder) if exists(folder) else [])
    return [
        SecretShown(name=each.name, kind=each.kind, version=each.version, created=each.created, changed=each.changed)
        for each in found
    ]


async def _require_secret(context: RequestContext, name: str) -> SecretShown:
    """Return one of the tenant's secrets; 404 for another tenant's, as for an unknown one."""
    for each in await _load_secrets(context):
        if each.name == name:
            return each
    raise ProblemError(404, "secret.missing", f"secret {name} not found; GET /vault lists the secrets")
