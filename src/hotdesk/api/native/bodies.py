"""Bytes that come in and go out: bounded, in pieces, and never anything a browser would run."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
from fastapi import Request

from hotdesk.api.native.problems import ProblemError
from hotdesk.api.native.schema import clean

MEDIA = "application/octet-stream"
LOOK = 8 << 20
"""Bytes after which the disk is looked at again."""
BYTES: dict[str, Any] = {
    "requestBody": {"required": False, "content": {MEDIA: {"schema": {"type": "string", "format": "binary"}}}}
}
"""How OpenAPI says that a body is bytes."""
BYTES_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The bytes.", "content": {MEDIA: {"schema": {"type": "string", "format": "binary"}}}}
}


async def read_bounded(request: Request, most: int) -> AsyncIterator[bytes]:
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise ProblemError(413, "request.too-large", f"the body has more than {most} bytes; send less")
        if piece:
            yield piece


async def save_body(request: Request, path: Path, most: int, floor: int) -> int:
    """Write a body to a private file; return its size. An incomplete one leaves nothing.

    Nor does one that would leave the machine less than `floor` bytes of its disk.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        async with await anyio.open_file(fd, "wb") as file:
            looked = -LOOK
            async for piece in read_bounded(request, most):
                if (size := await file.tell()) - looked >= LOOK:
                    require_room(path.parent, floor)
                    looked = size
                await file.write(piece)
            return await file.tell()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.Path(path).unlink(missing_ok=True)
        raise


def require_room(folder: Path, floor: int) -> None:
    """Refuse an upload that would fill the shared disk."""
    if shutil.disk_usage(folder).free < floor:
        raise ProblemError(507, "disk.full", "this server's disk is nearly full; try later, or ask its operator")


def build_attachment_headers(name: str) -> dict[str, str]:
    """Return the headers under which foreign bytes go out: to be saved, not shown."""
    last = clean(name).rpartition("/")[2] or "file"
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(last, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "no-store",
    }
