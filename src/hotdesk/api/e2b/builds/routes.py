"""The API calls about templates: build them, follow a build, tag, list and delete them."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from hotdesk.api.caller import Caller
from hotdesk.api.e2b.builds import orders, uploads
from hotdesk.api.e2b.builds.build_log import LEVELS, Level
from hotdesk.api.e2b.builds.names import DEFAULT_TAG, check_tag, merge_tags, split_reference
from hotdesk.api.e2b.builds.records import (
    BuildRecord,
    TemplateRecord,
    TenantTemplates,
    make_missing_template_error,
    new_build,
)
from hotdesk.api.e2b.builds.service import TemplateBuilds
from hotdesk.api.e2b.control.requests import read
from hotdesk.api.e2b.responses import E2bError, answer, answer_empty
from hotdesk.api.e2b.templates import parse_image_name
from hotdesk.api.tenants import Tenant
from hotdesk.config import MIB
from hotdesk.desk.image.image import get_record_path

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PARAMETER = "upload"
"""The parameter of an upload link that authorizes the sender."""


async def receive_upload(builds: TemplateBuilds, request: Request, digest: str) -> Response:
    link = builds.files.take_link(request.query_params.get(_PARAMETER, ""), digest)
    await builds.files.save(link, request)
    return Response(status_code=200)


async def respond(
    builds: TemplateBuilds, tenant: Tenant, caller: Caller, request: Request, path: list[str]
) -> Response | None:
    """Answer a call about templates; `None` if it is about something else."""
    store = builds.of(tenant)
    match request.method, path:
        case "POST", ["v3", "templates"] | ["v2", "templates"]:
            return await _request_build(store, request)
        case "POST", ["v2", "templates", name, "builds", build]:
            found, record = _require_build(store, name, build)
            order = await read(request, orders.BuildOrder)
            builds.start(store, found, record, order, caller.described)
            return Response(status_code=202)
        case "GET", ["templates", name, "files", digest]:
            return _offer_upload(builds, store, request, name, digest)
        case "GET", ["templates", name, "builds", build, "status"]:
            return _show_status(builds, store, request, name, build)
        case "GET", ["templates", name, "builds", build, "logs"]:
            return _show_logs(builds, store, request, name, build)
        case "GET", ["templates", "aliases", name]:
            return _find_alias(store, name)
        case "POST", ["templates", "tags"]:
            return await assign_tags(store, request)
        case "DELETE", ["templates", "tags"]:
            return await remove_tags(store, request)
        case "GET", ["templates", name, "tags"]:
            return _list_tags(store, name)
        case "GET", ["templates"] | ["v2", "templates"]:
            return answer([describe(store, each) for each in store.templates.values()])
        case "GET", ["templates", name]:
            found, _ = store.find(name)
            return answer(describe(store, found) | {"builds": [_describe_build(each) for each in found.builds]})
        case "DELETE", ["templates", name] if builds.snapshots.find(store.tenant, name) is None:
            return await delete(builds, store, name)
    return None


async def _request_build(store: TenantTemplates, request: Request) -> Response:
    body = await read(request, orders.BuildRequest)
    name, tag = split_reference(store.tenant.name, body.reference)
    tags = merge_tags(tag, body.tags or [])
    if (
        store.find_named(name) is None
        and get_record_path(store.tenant.settings.images, parse_image_name(name)).exists()
    ):
        raise E2bError(409, f"'{name}' is the name of an image on this server. Choose another name for the template.")
    build = new_build(tags, body.cpu_count, None if body.memory_mb is None else body.memory_mb * MIB)
    template = store.begin(name, build)
    await store.write()
    view: dict[str, object] = {
        "templateID": template.id,
        "buildID": build.id,
        "public": False,
        "names": [f"{store.tenant.name}/{name}"],
        "tags": tags,
        "aliases": [name],
    }
    return answer(view, 202)


def _offer_upload(builds: TemplateBuilds, store: TenantTemplates, request: Request, name: str, digest: str) -> Response:
    template = store.find(name)[0].id
    if not _DIGEST.fullmatch(digest):
        raise E2bError(400, "The hash of an archive must be its SHA-256 in 64 hexadecimal digits.")
    present = uploads.find_archive(store.tenant, digest) is not None
    word = builds.files.open_link(store.tenant, digest)
    server = f"{request.url.scheme}://{request.url.netloc}"
    place = f"/templates/{template}/files/{digest}?{urlencode({_PARAMETER: word})}"
    return answer({"present": present, "url": server + place}, 201)


def _require_build(store: TenantTemplates, name: str, build: str) -> tuple[TemplateRecord, BuildRecord]:
    """Return a build of a template; 404 if there is none."""
    try:
        number = str(uuid.UUID(build))
    except ValueError:
        raise E2bError(400, "The build id must be a UUID.") from None
    found, _ = store.find(name)
    record = found.build(number)
    if record is None:
        raise E2bError(404, f"build '{number}' not found")
    return found, record


def _show_status(builds: TemplateBuilds, store: TenantTemplates, request: Request, name: str, build: str) -> Response:
    found, record = _require_build(store, name, build)
    run = builds.find_run(store.tenant.name, record.id)
    entries = run.log.read_page(_parse_offset(request), _parse_level(request)) if run is not None else []
    view: dict[str, object] = {
        "templateID": found.id,
        "buildID": record.id,
        "status": record.status,
        "logs": [],
        "logEntries": entries,
    }
    if record.status == "error":
        reason: dict[str, object] = {"message": record.message}
        if record.step:
            reason["step"] = record.step
        if run is not None:
            reason["logEntries"] = run.log.get_tail(record.step)
        view["reason"] = reason
    return answer(view)


def _show_logs(builds: TemplateBuilds, store: TenantTemplates, request: Request, name: str, build: str) -> Response:
    _, record = _require_build(store, name, build)
    run = builds.find_run(store.tenant.name, record.id)
    return answer({"logs": run.log.read_page(_parse_offset(request), _parse_level(request)) if run is not None else []})


def _parse_offset(request: Request) -> int:
    text = request.query_params.get("logsOffset", "0")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise E2bError(400, "logsOffset must be a whole number, 0 or more.")
    return int(text)


def _parse_level(request: Request) -> Level:
    text = request.query_params.get("level", LEVELS[0])
    for each in LEVELS:
        if each == text:
            return each
    raise E2bError(400, f"level must be one of {', '.join(LEVELS)}.")


def _find_alias(store: TenantTemplates, name: str) -> Response | None:
    """Return the template of a name; `None` if it may be a snapshot or an image."""
    try:
        found, _ = store.find(name)
    except E2bError:
        return None
    return answer({"templateID": found.id, "public": False})


async def assign_tags(store: TenantTemplates, request: Request) -> Response:
    body = await read(request, orders.TagAssignment)
    found, tag = store.find(body.target)
    meant = found.tags.get(tag or DEFAULT_TAG)
    if meant is None:
        raise make_missing_template_error(body.target)
    tags = merge_tags(None, body.tags)
    store.assign(found, meant.build, tags)
    await store.write()
    return answer({"buildID": meant.build, "tags": tags}, 201)


async def remove_tags(store: TenantTemplates, request: Request) -> Response:
    body = await read(request, orders.TagRemoval)
    found, _ = store.find(body.name)
    store.unassign(found, [check_tag(each) for each in body.tags])
    await store.write()
    return answer_empty()


def _list_tags(store: TenantTemplates, name: str) -> Response:
    found, _ = store.find(name)
    tags = sorted(found.tags.items(), key=lambda pair: pair[1].created)
    return answer([{"tag": tag, "buildID": each.build, "createdAt": as_time(each.created)} for tag, each in tags])


async def delete(builds: TemplateBuilds, store: TenantTemplates, name: str) -> Response | None:
    """Delete a template; `None` if it may be a snapshot."""
    try:
        found, _ = store.find(name)
    except E2bError:
        return None
    if any(each.status == "building" for each in found.builds):
        raise E2bError(409, f"template '{found.name}' is being built. Wait until that build has ended.")
    store.delete(found)
    await store.write()
    builds.sweeping.set()
    return answer_empty()


def describe(store: TenantTemplates, template: TemplateRecord) -> dict[str, object]:
    newest = max(template.builds, key=lambda each: each.created, default=None)
    return {
        "templateID": template.id,
        "buildID": newest.id if newest is not None else "",
        "buildStatus": newest.status if newest is not None else "waiting",
        "buildCount": len(template.builds),
        "cpuCount": (newest.cpus if newest is not None else 0) or 2,
        "memoryMB": ((newest.memory if newest is not None else 0) or 2048 * MIB) // MIB,
        "diskSizeMB": 16384,
        "public": False,
        "aliases": [template.name],
        "names": [f"{store.tenant.name}/{template.name}"],
        "createdAt": as_time(template.created),
        "updatedAt": as_time(newest.created if newest is not None else template.created),
        "lastSpawnedAt": None,
        "spawnCount": 0,
        "createdBy": None,
        "envdVersion": "0.6.13",
    }


def _describe_build(build: BuildRecord) -> dict[str, object]:
    return {"buildID": build.id, "status": build.status, "createdAt": as_time(build.created)}


def as_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
