"""Routes of files inside desks: list, read, write, remove. Bytes are sent as attachments, never displayed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from hotdesk.api.native.access.auth import ForDesks
from hotdesk.api.native.bodies import BYTES, BYTES_RESPONSE, MEDIA, build_attachment_headers, read_bounded
from hotdesk.api.native.desks.desks import find_desk
from hotdesk.api.native.problems import document_errors
from hotdesk.api.native.schema import DeskName, Model, Page, clean
from hotdesk.config import GIB
from hotdesk.desk.seam import Entry
from hotdesk.errors import FileError

router = APIRouter(prefix="/desks/{desk}", tags=["files"], responses=document_errors(409, 413, 502, 507))
MAX_FILE_BYTES = 4 * GIB
MAX_ENTRIES = 10_000
"""Entries of one listing."""
_FilePath = Annotated[
    str,
    Query(
        max_length=4096,
        pattern="^[^\\x00]*$",
        description="A path inside the desk; relative paths start at the home folder.",
    ),
]
Depth = Annotated[int, Query(ge=1, le=16)]


class EntryShown(Model):
    """An entry of a desk's file system. Untrusted: all of it comes from the desk."""

    name: str
    path: str
    kind: str
    size: int
    mode: int
    uid: int
    gid: int
    modified: float
    target: str | None = Field(description="The target of a symbolic link, as stored in the link; null: not a link.")


@router.get("/entries", summary="List a folder")
async def entries(context: ForDesks, desk: DeskName, path: _FilePath = "", depth: Depth = 1) -> Page[EntryShown]:
    """List a folder inside a desk, sorted by name."""
    async with find_desk(context, desk) as found:
        listed = await found.list(path or ".", depth=depth, limit=MAX_ENTRIES)
    return Page(items=[as_shown(each) for each in listed])


@router.get("/file", summary="Read a file", response_class=Response, responses=BYTES_RESPONSE)
async def read(context: ForDesks, desk: DeskName, path: _FilePath) -> Response:
    """Return a file's bytes as a download."""
    stack = AsyncExitStack()
    try:
        found = await stack.enter_async_context(find_desk(context, desk))
        pieces = found.read_stream(path)
        stack.push_async_callback(pieces.aclose)  # the client may disconnect before the end of the file
        first = await anext(pieces, b"")
    except BaseException:
        await stack.aclose()
        raise

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return StreamingResponse(rest(), 200, build_attachment_headers(path), MEDIA, BackgroundTask(stack.aclose))


@router.put("/file", status_code=204, summary="Write a file", openapi_extra=BYTES)
async def write(context: ForDesks, desk: DeskName, path: _FilePath, request: Request) -> None:
    """Write a file, and create missing folders."""
    async with find_desk(context, desk) as found:
        await found.write(path, read_bounded(request, MAX_FILE_BYTES))


@router.delete("/file", status_code=204, summary="Remove a file or folder")
async def remove(context: ForDesks, desk: DeskName, path: _FilePath) -> None:
    """Remove a file, or a folder with everything in it."""
    if not path.strip("/."):
        raise FileError(
            "the home folder and the root folder of a desk cannot be removed; burn the desk instead", "invalid"
        )
    async with find_desk(context, desk) as found:
        await found.remove(path)


def as_shown(entry: Entry) -> EntryShown:
    return EntryShown(
        name=clean(entry.name), path=clean(entry.path), kind=entry.kind, size=entry.size, mode=entry.mode,
        uid=entry.uid, gid=entry.gid, modified=entry.modified,
        target=None if entry.target is None else clean(entry.target),
    )  # fmt: skip
