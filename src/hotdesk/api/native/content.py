"""Create links to content of desks at the second origin: valid for a minute, for a sandboxed frame."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Request
from pydantic import Field

from hotdesk.api.caller import Power
from hotdesk.api.native.access.auth import Anybody, RequestContext
from hotdesk.api.native.desks.desks import find_desk
from hotdesk.api.native.drive import find as find_version
from hotdesk.api.native.drive import run_in_thread
from hotdesk.api.native.jobs.frames import frame
from hotdesk.api.native.jobs.jobs import find as find_job
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import Model
from hotdesk.api.web.content import choose_media_type
from hotdesk.config import MIB
from hotdesk.job import report
from hotdesk.job.record.decisions import JOBS, get_journal_path

router = APIRouter(prefix="/content", tags=["content"], responses=document_errors(409))
_MAX_PREVIEW_BYTES = 16 * MIB
"""Bytes of a preview at most; larger files have to be downloaded."""
Id = Annotated[str, Field(pattern="^i[a-z0-9]{20}$")]


class ContentOrder(Model):
    """What to preview: a file of the drive or a desk, a job's report, or a screenshot."""

    kind: Literal["drive", "file", "report", "frame"]
    path: Annotated[str, Field(max_length=4096, pattern="^[^\\x00]*$")] = ""
    desk: Id | None = None
    job: Id | None = None
    frame: Annotated[int, Field(ge=1, le=10**6)] | None = None


class ContentAddress(Model):
    """The preview's address, valid for one minute."""

    url: str
    inline: bool = Field(description="Whether a browser displays the file; false: it is downloaded.")


_FIELDS = {"drive": "`path`", "file": "`desk` and `path`", "report": "`job`", "frame": "`job` and `frame`"}
"""The fields that each kind of preview needs, for an error message."""
NEEDS: dict[str, Power] = {"drive": "drive", "file": "desks", "report": "jobs", "frame": "jobs"}


@router.post("", status_code=201, summary="Create a preview link")
async def link(context: Anybody, order: ContentOrder, request: Request) -> ContentAddress:
    """Create a link to one file, served from a separate origin without cookies and scripts."""
    offer = context.native.offer
    if offer is None:
        raise ProblemError(
            409,
            "content.none",
            "this server shows no previews, because it has no separate origin for them; download the file",
        )
    if not context.caller.may(NEEDS[order.kind]):
        raise ProblemError(
            403, "key.power", f"your key lacks the power {NEEDS[order.kind]!r}, which this preview needs"
        )
    data, name = await read_content(context, order)
    host = request.headers.get("host", "").rpartition(":")
    port = f":{host[2]}" if host[1] and host[2].isdecimal() else ""
    origin = f"{request.url.scheme}://content.{context.native.serving.domain}{port}"
    ours = order.kind == "report"
    return ContentAddress(
        url=origin + offer(context.tenant.name, data, name, ours), inline=choose_media_type(name, ours)[1]
    )


async def read_content(context: RequestContext, order: ContentOrder) -> tuple[bytes, str]:
    match order:
        case ContentOrder(kind="drive", path=path) if path:
            drive, version = await find_version(context, path)
            if version.size > _MAX_PREVIEW_BYTES:
                raise ProblemError(
                    409,
                    "content.large",
                    f"the file has {version.size} bytes, more than the {_MAX_PREVIEW_BYTES // MIB} MiB of a preview; "
                    "download it",
                )
            data = await run_in_thread(lambda: b"".join(drive.blobs.read(version.sha256, version.size)))
            return data, version.name
        case ContentOrder(kind="file", desk=str(desk), path=path) if path:
            async with find_desk(context, desk) as found:
                data = await found.read(path, limit=_MAX_PREVIEW_BYTES)
            return data, path.rpartition("/")[2]
        case ContentOrder(kind="report", job=str(job)):
            await find_job(context, job)
            settings = context.tenant.settings
            data = await anyio.to_thread.run_sync(report.make, get_journal_path(settings), settings.lib / JOBS, job)
            return data, "report.html"
        case ContentOrder(kind="frame", job=str(job), frame=int(number)):
            await find_job(context, job)
            return await anyio.to_thread.run_sync(frame, context.tenant.settings, job, number), "screen.jpg"
    raise ProblemError(
        400,
        "content.what",
        f"a preview of kind {order.kind!r} needs {_FIELDS[order.kind]} in the request",
    )
