"""Bodies of bytes: bounded, in pieces, and never sent as anything a browser would run."""

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
"""Bytes after which the free disk space is checked again."""
BYTES: dict[str, Any] = {
    "requestBody": {"required": False, "content": {MEDIA: {"schema": {"type": "string", "format": "binary"}}}}
}
"""OpenAPI's description of a request body of bytes."""
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
    """Write a body to a new private file; return its size. On failure the file is removed.

    It fails if less than `floor` bytes of the disk are free.
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
    """Return headers that make a browser save untrusted bytes instead of displaying them."""
    last = clean(name).rpartition("/")[2] or "file"
    return {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(last, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "no-store",
    }
