"""`/files`: files of a sandbox, read and written over plain HTTP, authorized by token or signature."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from hotdesk.api.e2b.envd import signing, upload
from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.api.e2b.envd.download import FileResponse, as_refusal
from hotdesk.api.e2b.envd.fields import resolve
from hotdesk.api.e2b.envd.guest_files import GuestFilesError
from hotdesk.api.e2b.envd.users import User, look_up
from hotdesk.api.e2b.responses import E2bError, answer
from hotdesk.errors import DeskGone, HotdeskError

if TYPE_CHECKING:
    from hotdesk.api.e2b.envd.envd import EnvdCall
    from hotdesk.api.e2b.sandboxes import Sandbox


def choose_act(request: Request) -> signing.Act:
    if request.method not in ("GET", "HEAD", "POST"):
        raise E2bError(405, "files support GET and HEAD (read) and POST (write) only")
    return "write" if request.method == "POST" else "read"


def authorize(request: Request, sandbox: Sandbox) -> None:
    """Refuse a request with neither the sandbox's token nor a signature by it."""
    act = choose_act(request)
    shown = request.headers.get("x-access-token")
    if shown is not None:
        signing.check_token(shown, sandbox.token)
    elif sandbox.token:
        with sandbox.room.tries.limit_guesses(request.client.host if request.client else ""):
            signing.find(signing.read(request.query_params, act), [sandbox])


def is_signed(request: Request, sandbox: Sandbox) -> bool:
    """Return whether a request has a valid signature instead of a token; a wrong one is not counted as a guess."""
    if "x-access-token" in request.headers or not sandbox.token:
        return False
    try:
        signing.find(signing.read(request.query_params, choose_act(request)), [sandbox])
    except E2bError:
        return False
    return True


async def respond(call: EnvdCall) -> Response:
    query = call.request.query_params
    try:
        user = await look_up(call, query.get("username", ""))
        if call.request.method != "POST":
            return FileResponse(call, resolve(query.get("path", ""), user.home))
        with call.cut():
            return answer([entry async for entry in _write_uploads(call, user, query)])
    except RpcError as e:
        raise E2bError(401 if e.code == "unauthenticated" else 400, str(e)) from None


async def _write_uploads(call: EnvdCall, user: User, query: Mapping[str, str]) -> AsyncIterator[dict[str, object]]:
    """Write a caller's uploads; yield the response for each file."""
    notes = upload.parse_metadata(call.request.headers)
    data = upload.read_body(call.request)
    kind = call.request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() == "application/octet-stream":
        if not query.get("path"):
            raise E2bError(400, "the query parameter path is required with application/octet-stream")
        yield await write(call, user, query["path"], notes, data)
        return
    paths: set[str] = set()
    async for name, filename, content in upload.UploadForm(kind, data).iterate_parts():
        if name != "file":
            continue
        path = resolve(query.get("path") or filename, user.home)
        if path in paths:
            raise E2bError(400, f"you cannot upload multiple files to the same path '{path}'")
        if len(paths) >= upload.MAX_FILES:
            raise E2bError(400, f"the form has more than {upload.MAX_FILES} files; send fewer at a time")
        paths.add(path)
        yield await write(call, user, path, notes, content)


async def write(
    call: EnvdCall, user: User, path: str, notes: Mapping[str, str], data: AsyncIterator[bytes]
) -> dict[str, object]:
    path = resolve(path, user.home)
    try:
        await call.room.inside.write(call.sandbox.desk, path, user.number, notes, upload.rechunk(data))
    except (GuestFilesError, HotdeskError) as e:
        if isinstance(e, DeskGone):
            raise
        raise as_refusal(e, path) from None
    entry: dict[str, object] = {"name": path.rpartition("/")[2], "type": "file", "path": path}
    return {**entry, "metadata": dict(notes)} if notes else entry
