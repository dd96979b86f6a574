"""Reads a file of a sandbox: whole or in part, plain or compressed."""

from __future__ import annotations

import json
import re
import zlib
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import quote

import anyio
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from hotdesk.api.e2b.envd.connect import cancel_on_disconnect
from hotdesk.api.e2b.envd.guest_files import GuestFilesError, Worker, as_json
from hotdesk.api.e2b.responses import E2bError
from hotdesk.dataclass import dataclass
from hotdesk.errors import DeskGone, HotdeskError, LinkError, unwrap_group

if TYPE_CHECKING:
    from hotdesk.api.e2b.envd.envd import EnvdCall

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
NEVER = re.compile(r"q\s*=\s*0(\.0*)?\s*$")
GZIP = 31
"""The `wbits` value with which zlib writes gzip."""
CALLERS = frozenset(
    "EINVAL ENOTDIR ENAMETOOLONG ELOOP ENXIO EACCES EPERM EROFS EOPNOTSUPP ENOTSUP EEXIST ETXTBSY EBUSY EAGAIN".split()
)
"""Errors that the caller can correct."""


@dataclass(frozen=True, slots=True)
class ByteRange:
    first: int
    last: int | None
    """The first byte after the part; `None`: up to the end of the file."""
    size: int

    @property
    def whole(self) -> bool:
        return self.first == 0 and self.last in (None, self.size)


def parse_range(header: str, size: int) -> ByteRange:
    """Parse a Range header; one that is not understood means the whole file."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-" or size == 0:
        return ByteRange(0, size or None, size)
    first, last = found[1], found[2]
    begin = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if begin >= end:
        raise E2bError(416, f"the range is outside of the file, which has {size} bytes")
    return ByteRange(begin, end, size)


def is_packed(header: str) -> bool:
    """Return whether to compress a response; refuse a header that accepts neither gzip nor identity."""
    words = [word.partition(";") for word in header.lower().split(",") if word.strip()]
    encodings = {name.strip(): not NEVER.search(weight) for name, _, weight in words}
    accepted = {name for name, is_accepted in encodings.items() if is_accepted}
    if accepted == {"gzip"}:
        return True
    if encodings.get("identity", encodings.get("*", True)):
        return False
    if "gzip" in accepted:
        return True
    raise E2bError(406, "Accept-Encoding must allow identity or gzip")


class FileResponse(Response):
    """A file's bytes, as the program inside the desk reads them."""

    def __init__(self, call: EnvdCall, path: str) -> None:
        super().__init__()
        self.call = call
        self.path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def put(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            with self.call.cut():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope)
                    async with self.call.room.inside.worker(self.call.sandbox.desk) as worker:
                        await self.send_file(worker, put)
                    tasks.cancel_scope.cancel()
        except* (E2bError, GuestFilesError, HotdeskError) as group:
            if begun or isinstance(error := unwrap_group(group), DeskGone):
                self.call.reset()  # an incomplete file must not look complete
            else:
                await as_refusal(error, self.path).make_response()(scope, receive, send)

    async def send_file(self, worker: Worker, send: Send) -> None:
        headers = self.call.request.headers
        await worker.ask({"act": "read", "path": self.path})
        size, modified = as_head(await worker.hear())
        try:
            part = parse_range(headers.get("range", ""), size)
            packed = is_packed(headers.get("accept-encoding", "")) and part.whole
        except E2bError:
            worker.spoilt = True
            raise
        await worker.give(json.dumps([part.first, part.last]).encode())
        lines = _build_headers(self.path, part, modified, packed)
        start = {"type": "http.response.start", "status": 200 if part.whole else 206, "headers": lines}
        packer = zlib.compressobj(1, zlib.DEFLATED, GZIP) if packed else None
        remaining = part.last - part.first if part.last is not None and not packed else None
        frame = await worker.hear()
        await send(start)
        waiting = b""
        while frame[0] == "D":
            data = frame[1] if packer is None else packer.compress(frame[1])
            if remaining is not None and (remaining := remaining - len(data)) < 0:
                raise LinkError("the file grew while it was read; read it again")
            if waiting and data:
                await send({"type": "http.response.body", "body": waiting, "more_body": True})
            waiting = data or waiting
            frame = await worker.hear()
        if remaining:
            raise LinkError("the file shrank while it was read; read it again")
        rest = packer.flush() if packer is not None else b""
        self.call.sandbox.cuts.discard(self.call.reset)  # after its last byte the connection is for other requests
        await send({"type": "http.response.body", "body": waiting + rest, "more_body": False})


def as_head(frame: tuple[str, bytes]) -> tuple[int, int]:
    match frame[0], as_json(frame[1]):
        case "H", {"size": int(size), "modified": int(modified)} if 0 <= size < 1 << 60:
            return size, modified
    raise LinkError("malformed reply from hotdesk's file program in the sandbox; try again")


def _build_headers(path: str, part: ByteRange, modified: int, packed: bool) -> list[tuple[bytes, bytes]]:
    """Return the response headers, with which a browser never runs the content."""
    lines = {
        "content-type": "application/octet-stream",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2], safe='')}",
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "vary": "Accept-Encoding",
        "last-modified": formatdate(min(max(modified // 10**9, 0), 253402300799), usegmt=True),
    }
    if packed:
        lines["content-encoding"] = "gzip"
    elif part.last is not None:
        lines["content-length"] = str(part.last - part.first)
        lines["accept-ranges"] = "bytes"
    if not part.whole:
        lines["content-range"] = f"bytes {part.first}-{(part.last or 1) - 1}/{part.size}"
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in lines.items()]


def as_refusal(error: BaseException, path: str) -> E2bError:
    """Convert a failure to the error response of `/files`."""
    if isinstance(error, E2bError):
        return error
    if isinstance(error, GuestFilesError):
        match error.code:
            case "ENOENT":
                return E2bError(404, f"path '{path}' does not exist")
            case "EISDIR":
                return E2bError(400, f"path '{path}' is a directory")
            case "ENOSPC" | "EDQUOT":
                return E2bError(507, f"not enough disk space available in the sandbox for '{path}'; delete files there")
        return E2bError(400 if error.code in CALLERS else 500, f"path '{path}': {error}")
    return E2bError(502, f"path '{path}' could not be read or written: {error}")
