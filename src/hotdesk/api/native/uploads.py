"""Files uploaded for a later job: stored for an hour."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, Request
from pydantic import Field

from hotdesk.api.native.access.auth import ForJobs, RequestContext
from hotdesk.api.native.bodies import BYTES, save_body
from hotdesk.api.native.problems import ProblemError, document_errors
from hotdesk.api.native.schema import Model
from hotdesk.config import MIB, Config
from hotdesk.drive.names import check_name
from hotdesk.linux import private_files

router = APIRouter(prefix="/uploads", tags=["jobs"], responses=document_errors(413, 507))
FOLDER = ("serve", "uploads")
_MAX_UPLOAD_BYTES = 256 * MIB
MAX_UPLOADS = 1000
"""Uploads of one tenant that may wait for a job."""
_UPLOAD_LIFETIME_S = 3600.0
UploadId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class Uploaded(Model):
    """An uploaded file that no job uses yet."""

    id: str
    name: str
    size: int


@router.post("", status_code=201, summary="Send a file for a job", openapi_extra=BYTES)
async def upload(
    context: ForJobs, request: Request, name: Annotated[str, Query(min_length=1, max_length=255)]
) -> Uploaded:
    """Upload a file for a job, which names it in `files` by its id."""
    check_name(name)
    folder = prepare_folder(context.tenant.settings)
    await anyio.to_thread.run_sync(sweep, folder)
    if len(os.listdir(folder)) >= MAX_UPLOADS:
        raise ProblemError(
            429,
            "upload.many",
            f"{MAX_UPLOADS} uploaded files are stored, which is the limit; try later: each is deleted after an hour",
        )
    number = secrets.token_hex(16)
    size = await save_body(request, folder / number, _MAX_UPLOAD_BYTES, context.tenant.settings.disk_floor)
    return Uploaded(id=number, name=name, size=size)


def prepare_folder(settings: Config) -> Path:
    folder = settings.lib
    for part in FOLDER:
        folder = folder / part
        private_files.make_folder(folder)
    return folder


def sweep(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _UPLOAD_LIFETIME_S:
                path.unlink()


def place(context: RequestContext, number: str, target: Path) -> None:
    """Copy an upload to a job's file; the upload stays, and can be used again."""
    source = prepare_folder(context.tenant.settings) / number
    if not source.is_file():
        raise ProblemError(
            404,
            "upload.missing",
            f"there is no upload {number} (uploads expire after an hour); send the file to POST /uploads again",
        )
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with source.open("rb") as data, target.open("xb") as placed:
            shutil.copyfileobj(data, placed)
    except (FileExistsError, NotADirectoryError):
        raise ProblemError(
            400, "brief.file", f"a file {target.name} exists already; give each file its own name"
        ) from None
