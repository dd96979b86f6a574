"""Routes of a tenant's keys: list, create, revoke."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import anyio
from fastapi import APIRouter, Path
from pydantic import Field

from hotdesk.api.caller import Power
from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.auth import ForAdmin, RequestContext
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, Limit, Model, Page, paginate
from hotdesk.desk.seam import new_id
from hotdesk.event import KeyChanged

router = APIRouter(prefix="/keys", tags=["keys"], responses=document_errors())
_KeyId = Annotated[str, Path(pattern="^[0-9a-f]{8}$")]


class KeyOrder(Model):
    """A request for a new key."""

    name: Annotated[
        str,
        Field(
            pattern="^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$",
            description="The person or program that uses the key. Approvals made with the key show this name.",
        ),
    ]
    powers: Annotated[list[Power], Field(min_length=1, max_length=8)]
    seconds: (
        Annotated[float, Field(gt=0, le=10 * 365 * 86400, description="How long the key is valid, in seconds.")] | None
    ) = None


class KeyShown(Model):
    """The stored properties of a key, without the key itself."""

    id: str
    name: str
    powers: list[str]
    made: float
    expires: float | None
    revoked: float | None


class KeyMade(KeyShown):
    """A new key; this is the only time it is seen."""

    key: str


@router.get("", summary="Keys")
async def list_keys(context: ForAdmin, limit: Limit = 100, after: After = "") -> Page[KeyShown]:
    """List the tenant's keys by their ids, never the keys themselves."""
    some, more = paginate(_list_keys(context), lambda each: each.id, limit, after)
    return Page(items=some, next=more)


@router.post("", status_code=201, summary="Create a key")
async def make(context: ForAdmin, order: KeyOrder) -> KeyMade:
    """Create a key for the caller's tenant. It can only have powers that the caller has."""
    if beyond := sorted(set(order.powers) - context.caller.powers):
        raise ProblemError(403, "key.power", f"your key lacks the power {beyond[0]!r}, so it cannot grant that power")
    make_key = partial(_open_writable_keys(context).make, order.name, context.tenant.name, order.powers, order.seconds)
    text = await anyio.to_thread.run_sync(make_key)
    powers = tuple(sorted(order.powers))
    change = KeyChanged(new_id(), text[4:12], "made", context.by, order.name, context.tenant.name, powers)
    try:
        await anyio.to_thread.run_sync(context.tenant.host.note, change)
    except Exception:  # the caller never sees the key, which must not stay valid
        await anyio.to_thread.run_sync(_open_writable_keys(context).revoke, text[4:12])
        raise
    [shown] = [each for each in _list_keys(context) if each.id == text[4:12]]
    return KeyMade(**shown.model_dump(), key=text)


@router.delete("/{key}", status_code=204, summary="Revoke a key")
async def revoke(context: ForAdmin, key: _KeyId) -> None:
    """Revoke a key at once, also if the journal cannot be written."""
    if key not in {each.id for each in _list_keys(context)}:
        raise ProblemError(404, "key.missing", f"key {key} not found; GET /keys lists the keys")
    await anyio.to_thread.run_sync(_open_writable_keys(context).revoke, key)
    await anyio.to_thread.run_sync(context.tenant.host.note, KeyChanged(new_id(), key, "revoked", context.by))


def _open_writable_keys(context: RequestContext) -> ApiKeys:
    """Open the key file separately, to change it in a thread: that may take long, and requests read `native.keys`."""
    return ApiKeys(context.native.keys.path.parent)


def _list_keys(context: RequestContext) -> list[KeyShown]:
    keys = context.native.keys
    keys.refresh()
    return [
        KeyShown(id=each.id, name=each.name, powers=list(each.powers), made=each.made, expires=each.expires,
                 revoked=each.revoked)
        for each in keys.by_id.values()
        if each.tenant == context.tenant.name
    ]  # fmt: skip
