"""E2B's content API: the files of a volume, for holders of its token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Annotated

import anyio
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.control import requests
from hotdesk.api.e2b.envd.connect import cancel_on_disconnect
from hotdesk.api.e2b.responses import E2bError, make_refusal, make_unknown_route_error
from hotdesk.api.e2b.volumes.processes import MALFORMED, VolumeCall
from hotdesk.api.e2b.volumes.registry import VolumeRecord, VolumeRegistry
from hotdesk.api.quotas import QuotaError, Quotas
from hotdesk.desk.volume.files import PIECE
from hotdesk.errors import unwrap_group

_ACTS: Mapping[tuple[str, str], str] = {
    ("GET", "path"): "stat",
    ("PATCH", "path"): "change",
    ("DELETE", "path"): "remove",
    ("GET", "dir"): "list",
    ("POST", "dir"): "mkdir",
    ("GET", "file"): "read",
    ("PUT", "file"): "write",
}
_NUMBERS = ("depth", "uid", "gid", "mode")
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
"""One range; as in HTTP, a header that is not understood means the whole file."""
_FILE_HEADERS = [
    (b"accept-ranges", b"bytes"),
    (b"content-type", b"application/octet-stream"),
    (b"content-disposition", b"attachment"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox"),
]
"""Headers of a file that a desk wrote: it is to be saved, and never a page of this server."""


class MetadataChange(requests.Body):
    """The owner and mode to set on a file."""

    uid: Annotated[int, Field(ge=0)] | None = None
    gid: Annotated[int, Field(ge=0)] | None = None
    mode: Annotated[int, Field(ge=0)] | None = None


class VolumeContent:
    def __init__(self, registry: VolumeRegistry, quotas: Quotas) -> None:
        self.registry = registry
        self.quotas = quotas

    async def respond(self, request: Request, path: list[str]) -> Response:
        volume = path[1] if len(path) > 1 else ""
        tenant, record = self.find(volume, request.headers.get("authorization", ""))
        try:
            self.quotas.ask(tenant, "calls")
        except QuotaError as e:
            raise E2bError(429, str(e)) from None
        act = _ACTS.get((request.method, path[2])) if len(path) == 3 else None
        if act is None:
            raise make_unknown_route_error()
        if self.registry.copying[volume]:
            raise E2bError(409, "the volume is being copied; try again when that is done")
        return ContentResponse(self.registry, tenant, record, await read_order(request, act))

    def find(self, volume: str, authorization: str) -> tuple[str, VolumeRecord]:
        """Return the volume of a token; a wrong token and an unknown volume give the same error."""
        kind, _, shown = authorization.partition(" ")
        tenant, record = self.registry.records.get(volume, ("", None))
        expected = record.token if record is not None and record.ready else "x" * 64
        right = hmac.compare_digest(shown.strip().encode(), expected.encode())
        if record is None or not record.ready or not right or kind.lower() != "bearer":
            raise E2bError(401, "the token of this volume is missing or wrong; connect to the volume to get its token")
        return tenant, record


async def read_order(request: Request, act: str) -> dict[str, object]:
    query = request.query_params
    if "path" not in query:
        raise E2bError(400, "the query parameter path is missing")
    order: dict[str, object] = {"act": act, "path": query["path"]}
    for name in _NUMBERS:
        if (text := query.get(name)) is not None:
            if not text.isdecimal() or len(text) > 9:
                raise E2bError(400, f"{name} must be a whole number")
            order[name] = int(text)
    if (text := query.get("force")) is not None:
        if text.lower() not in _TRUTHS:
            raise E2bError(400, "force must be true or false")
        order["force"] = _TRUTHS[text.lower()]
    if act == "read" and (found := _RANGE.fullmatch(request.headers.get("range", "").strip())):
        first, last = (int(text) if text else None for text in found.groups())
        if (first, last) != (None, None):
            order |= {"part": True, "first": first, "last": last}
    if act == "change":
        change = await requests.read(request, MetadataChange)
        order |= change.model_dump(exclude_none=True)
    return order


class ContentResponse(Response):
    """Carries out one request in the process of a volume, and forwards its response."""

    def __init__(self, registry: VolumeRegistry, tenant: str, record: VolumeRecord, order: dict[str, object]) -> None:
        super().__init__()
        self.registry = registry
        self.tenant = tenant
        self.record = record
        self.order = order
        self.begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; cut the connection if the response is interrupted, so that it does not look complete."""
        try:
            tenant = await self.registry.tenants.get_tenant(self.tenant)
            async with self.registry.processes.call(tenant, self.record.id) as call:
                await call.tell(self.order)
                if self.order["act"] == "write":
                    await _upload(call, Request(scope, receive))
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope)
                    await self.pass_on(call, send)
                    tasks.cancel_scope.cancel()
        except* Exception as group:  # noqa: BLE001 - the rim: whatever fails is an answer the SDKs can read
            if self.begun:
                scope["extensions"]["hotdesk.reset"]()
            else:
                error = unwrap_group(group)
                assert isinstance(error, Exception)
                await make_refusal(error, scope).make_response()(scope, receive, send)

    async def pass_on(self, call: VolumeCall, send: Send) -> None:
        status, length, part = await call.hear_head()
        is_file = self.order["act"] == "read" and status in (200, 206)
        headers = _FILE_HEADERS if is_file else [(b"content-type", b"application/json")]
        if part:
            headers = [*headers, (b"content-range", part.encode())]
        if status != 204:
            headers = [*headers, (b"content-length", b"%d" % length)]
        self.begun = True
        await send({"type": "http.response.start", "status": status, "headers": headers})
        while length > 0:
            _, data = await call.hear()
            length -= len(data)
            if length < 0 or not data:
                raise E2bError(503, MALFORMED)
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _upload(call: VolumeCall, request: Request) -> None:
    """Forward a body. After a refusal the rest is dropped: clients send everything before they read a response."""
    is_open = True
    async for data in request.stream():
        for start in range(0, len(data) if is_open else 0, PIECE):
            try:
                await call.tell({}, data[start : start + PIECE])
            except OSError:
                is_open = False
                break
    if is_open:
        try:
            await call.tell({"end": True})
        except OSError:
            pass  # it has responded already
