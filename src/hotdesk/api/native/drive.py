"""The drive: storage that outlives desks, by name and version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import anyio
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field
from starlette.responses import JSONResponse, StreamingResponse

from hotdesk.api.native import uploads
from hotdesk.api.native.access.auth import ForDrive, RequestContext
from hotdesk.api.native.bodies import BYTES, BYTES_RESPONSE, MEDIA, build_attachment_headers, save_body
from hotdesk.api.native.jobs.pages import MAX_PAGES, describe_pages, respond_with_page
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import After, Limit, Model, Page, paginate
from hotdesk.config import GIB
from hotdesk.desk.seam import new_id
from hotdesk.drive.catalog import Version
from hotdesk.drive.certificate import SUFFIX
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.keep import Drive
from hotdesk.drive.names import check_name, parse_reference
from hotdesk.errors import BriefError
from hotdesk.event import DriveChanged

router = APIRouter(prefix="/drive", tags=["drive"], responses=document_errors(413, 507))
MAX_FILE_BYTES = 4 * GIB
T = TypeVar("T")
READ: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file; on request its certificate or its list of pages as JSON, or one page as a picture.",
        "content": {
            **BYTES_RESPONSE[200]["content"],
            "application/json": {"schema": {"type": "object"}},
            "image/jpeg": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
FileName = Annotated[str, Path(max_length=1100, description="NAME, or NAME@VERSION.")]


class VersionShown(Model):
    """A version of a name in the drive."""

    name: str
    version: int
    sha256: str
    size: int
    at: float = Field(description="When the version was stored: seconds since 1970.")
    job: str
    certificate: str = Field(description="SHA-256 of the version's certificate; empty: no certificate.")
    checks: list[str] = Field(
        description="Checks that the file passed when an MCP client delivered it. No certificate covers them."
    )


@router.get("", summary="List files")
async def list_names(
    context: ForDrive, prefix: Annotated[str, Query(max_length=1024)] = "", limit: Limit = 100, after: After = ""
) -> Page[VersionShown]:
    """List the names, each with its newest version."""
    found = await run_in_thread(lambda: _open_drive(context).ls(prefix, who=OPERATOR))
    some, more = paginate(found, lambda each: each.name, limit, after)
    checks = await context.native.get_checks(context.tenant).of(some)
    return Page(items=[as_shown(each, passed) for each, passed in zip(some, checks, strict=True)], next=more)


@router.get(
    "/{path:path}", summary="Read a file, its certificate, or its pages", response_class=Response, responses=READ
)
async def read(
    context: ForDrive,
    path: FileName,
    certificate: Annotated[bool, Query(description="Return the version's certificate instead of the file.")] = False,
    pages: Annotated[
        bool, Query(description="Return the list of the version's rendered pages instead of the file.")
    ] = False,
    page: Annotated[
        int | None, Query(ge=1, le=MAX_PAGES, description="Return this rendered page as a picture instead of the file.")
    ] = None,
) -> Response:
    """Return a version as a download, its certificate, or its pages as a check rendered them in a clean desk."""
    drive, version = await find(context, path)
    if pages:
        return JSONResponse(
            (await run_in_thread(lambda: describe_pages(context.tenant.settings, version))).model_dump()
        )
    if page is not None:
        return await run_in_thread(lambda: respond_with_page(context.tenant.settings, version, page))
    if certificate:
        try:
            proof = await run_in_thread(lambda: drive.read_certificate(version))
        except BriefError as e:
            raise ProblemError(404, "certificate.missing", str(e)) from None
        return Response(proof, 200, build_attachment_headers(version.name + SUFFIX), "application/json")
    await run_in_thread(lambda: [None for _ in drive.blobs.read(version.sha256, version.size)])
    pieces = drive.blobs.read(version.sha256, version.size)
    headers = {**build_attachment_headers(version.name), "Content-Length": str(version.size)}
    return StreamingResponse(pieces, 200, headers, MEDIA)


@router.put("/{path:path}", status_code=201, summary="Store a file", openapi_extra=BYTES)
async def put(context: ForDrive, path: FileName, request: Request) -> VersionShown:
    """Store a file as the next version of a name."""
    name = check_name(path)
    place = uploads.prepare_folder(context.tenant.settings) / f"drive-{new_id()}"
    await save_body(request, place, MAX_FILE_BYTES, context.tenant.settings.disk_floor)

    def keep() -> Version:
        with place.open("rb") as file:
            return _open_drive(context).keep(
                name, file, owner=OPERATOR, intent=lambda version: note(context, version, "put")
            )

    try:
        return as_shown(await run_in_thread(keep))
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.Path(place).unlink(missing_ok=True)


@router.delete("/{path:path}", status_code=204, summary="Remove all versions of a file, or one version")
async def remove(context: ForDrive, path: FileName) -> None:
    """Remove a name with all its versions, or one version. The journal records the name."""
    name, number = parse_reference(path)
    await find(context, path)
    await run_in_thread(lambda: _open_drive(context).remove(
        name, number, who=OPERATOR, intent=lambda version: note(context, version, "removed")
    ))  # fmt: skip


def note(context: RequestContext, version: Version, what: str) -> None:
    """Write a change to the journal before it is made; called in a worker thread, because it waits for the disk."""
    details = (version.sha256, version.size, version.number)
    event = DriveChanged(new_id(), version.name, what, context.by, *details)  # type: ignore[arg-type]
    context.tenant.host.note(event)


async def find(context: RequestContext, path: str) -> tuple[Drive, Version]:
    name, number = parse_reference(path)
    drive = await run_in_thread(lambda: _open_drive(context))
    try:
        return drive, await run_in_thread(lambda: drive.get_version(name, number, who=OPERATOR))
    except BriefError as e:
        raise ProblemError(404, "drive.missing", str(e)) from None


def _open_drive(context: RequestContext) -> Drive:
    settings = context.tenant.settings
    return Drive(settings.lib / "drive", settings.drive_quota)


async def run_in_thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work)


def as_shown(version: Version, checks: Sequence[str] = ()) -> VersionShown:
    return VersionShown(
        name=version.name, version=version.number, sha256=version.sha256, size=version.size, at=version.at / 1000,
        job=version.job, certificate=version.certificate, checks=list(checks),
    )  # fmt: skip
