"""`filesystem.Filesystem`: describes, lists, creates, moves, removes and watches paths."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import anyio
from starlette.responses import Response

from hotdesk.api.e2b.envd.connect import (
    Message,
    RpcError,
    Say,
    parse_deadline,
    parse_keepalive,
    read_single_message,
    unary,
)
from hotdesk.api.e2b.envd.entries import as_entry
from hotdesk.api.e2b.envd.fields import get_field, get_number, get_path, get_text
from hotdesk.api.e2b.envd.guest_files import GuestFilesError
from hotdesk.api.e2b.envd.users import User, find_caller
from hotdesk.api.e2b.envd.watchers import MAX_WATCHERS, FolderWatcher
from hotdesk.api.e2b.responses import answer
from hotdesk.desk.seam import Change
from hotdesk.errors import FileError

if TYPE_CHECKING:
    from hotdesk.api.e2b.envd.envd import EnvdCall

CODES = {
    "ENOENT": "not_found", "EEXIST": "already_exists", "ENOTDIR": "invalid_argument", "EISDIR": "invalid_argument",
    "EINVAL": "invalid_argument", "ENAMETOOLONG": "invalid_argument", "ELOOP": "invalid_argument",
    "EBUSY": "invalid_argument", "ENOTEMPTY": "invalid_argument", "ETXTBSY": "invalid_argument",
    "EXDEV": "invalid_argument", "EOPNOTSUPP": "invalid_argument", "ENOTSUP": "invalid_argument",
    "EACCES": "permission_denied", "EPERM": "permission_denied", "EROFS": "permission_denied",
    "ENOSPC": "resource_exhausted", "EDQUOT": "resource_exhausted",
}  # fmt: skip
REASONS = {
    "missing": "not_found", "not-directory": "invalid_argument", "invalid": "invalid_argument",
    "denied": "permission_denied", "full": "resource_exhausted",
}  # fmt: skip
MAX_DEPTH = 1000


async def do(call: EnvdCall, act: str, path: str, **more: object) -> object:
    """Run an operation inside the desk; failures get the error codes of E2B's API."""
    try:
        return await call.room.inside.do(call.sandbox.desk, act, path, **more)
    except GuestFilesError as e:
        raise _make_rpc_error(e, path) from None


def _make_rpc_error(error: GuestFilesError, path: str) -> RpcError:
    if error.code == "ENOENT":
        return RpcError("not_found", f"path '{path}' does not exist")
    return RpcError(CODES.get(error.code, "internal"), f"'{path}': {error}")


async def read_request(call: EnvdCall) -> tuple[User, Message]:
    return await find_caller(call), await unary(call.request)


async def stat(call: EnvdCall) -> Response:
    user, message = await read_request(call)
    return answer({"entry": as_entry(await do(call, "stat", get_path(message, "path", user.home)))})


async def make_dir(call: EnvdCall) -> Response:
    user, message = await read_request(call)
    path = get_path(message, "path", user.home)
    try:
        created = await call.room.inside.do(call.sandbox.desk, "make", path, owner=user.number)
    except GuestFilesError as e:
        if e.code in ("EEXIST", "ENOTDIR"):
            raise RpcError("invalid_argument", f"path '{path}' already exists but it is not a directory") from None
        raise _make_rpc_error(e, path) from None
    if not created:
        raise RpcError("already_exists", f"directory '{path}' already exists")
    return answer({"entry": as_entry(await do(call, "stat", path))})


async def move(call: EnvdCall) -> Response:
    user, message = await read_request(call)
    source, destination = (get_path(message, name, user.home) for name in ("source", "destination"))
    return answer({"entry": as_entry(await do(call, "move", source, destination=destination, owner=user.number))})


async def _list_dir(call: EnvdCall) -> Response:
    user, message = await read_request(call)
    path = get_path(message, "path", user.home)
    depth = min(get_number(message, "depth") or 1, MAX_DEPTH)
    if depth < 1:
        raise RpcError("invalid_argument", "depth should be at least 1")
    try:
        found = await call.room.inside.list(call.sandbox.desk, path, depth)
    except GuestFilesError as e:
        if e.code == "ENOTDIR":
            raise RpcError("invalid_argument", f"path '{path}' is not a directory") from None
        raise _make_rpc_error(e, path) from None
    return answer({"entries": [as_entry(one) for one in found]})


async def remove(call: EnvdCall) -> Response:
    user, message = await read_request(call)
    await do(call, "remove", get_path(message, "path", user.home))
    return answer({})


async def _start_watcher(call: EnvdCall, message: Message) -> FolderWatcher:
    path = get_path(message, "path", (await find_caller(call)).home)
    recursive, entries = (bool(get_field(message, name, bool)) for name in ("recursive", "includeEntry"))
    try:
        return FolderWatcher(await call.sandbox.desk.watch(path, recursive=recursive), path, entries)
    except FileError as e:
        reason = f"path '{path}' does not exist" if e.reason == "missing" else str(e)
        reason = f"path '{path}' is not a directory" if e.reason == "not-directory" else reason
        raise RpcError(REASONS.get(e.reason, "internal"), reason) from None


async def watch_dir(call: EnvdCall) -> Response:
    message, seconds = await read_single_message(call.request), parse_deadline(call.request)

    async def tell(say: Say) -> None:
        watcher = await _start_watcher(call, message)
        try:
            await say({"start": {}})
            with anyio.move_on_after(seconds):
                await _tell_changes(call, watcher, say)
        finally:
            with anyio.move_on_after(1, shield=True):
                await watcher.watch.close()
        raise RpcError("deadline_exceeded", "the timeout that the client set for this call has passed")

    return call.stream(tell)


async def _tell_changes(call: EnvdCall, watcher: FolderWatcher, say: Say) -> None:
    """Report changes until cancelled, and send keepalives during silence."""
    interval = parse_keepalive(call.request)
    send, receive = anyio.create_memory_object_stream[list[Change]](1)

    async def hear() -> None:
        while True:
            await send.send(await watcher.watch.wait())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        while True:
            changes: list[Change] | None = None
            with anyio.move_on_after(interval):
                changes = await receive.receive()
            if changes is None:
                await say({"keepalive": {}})
                continue
            for event in await watcher.tell(changes, lambda path: _describe_path(call, path)):
                await say({"filesystem": event})


async def _describe_path(call: EnvdCall, path: str) -> Message | None:
    try:
        return as_entry(await call.room.inside.do(call.sandbox.desk, "stat", path))
    except GuestFilesError:
        return None


async def _create_watcher(call: EnvdCall) -> Response:
    message = await unary(call.request)
    if len(call.room.watchers) >= MAX_WATCHERS:
        raise RpcError(
            "resource_exhausted", f"{MAX_WATCHERS} folders are watched already, which is the limit; remove a watcher"
        )
    watcher = await _start_watcher(call, message)
    name = secrets.token_hex(8)
    call.room.watchers[name] = watcher
    return answer({"watcherId": name})


async def _get_watcher_events(call: EnvdCall) -> Response:
    watcher = _find_watcher(call, await unary(call.request))
    events = await watcher.tell(await watcher.watch.changes(), lambda path: _describe_path(call, path))
    return answer({"events": events})


async def _remove_watcher(call: EnvdCall) -> Response:
    message = await unary(call.request)
    watcher = _find_watcher(call, message)
    del call.room.watchers[get_text(message, "watcherId")]
    await watcher.watch.close()
    return answer({})


def _find_watcher(call: EnvdCall, message: Message) -> FolderWatcher:
    name = get_text(message, "watcherId")
    watcher = call.room.watchers.get(name)
    if watcher is None:
        raise RpcError("not_found", f"watcher with id {name[:100]} not found")
    return watcher


METHODS: dict[str, Callable[[EnvdCall], Awaitable[Response]]] = {
    "Stat": stat, "MakeDir": make_dir, "Move": move, "ListDir": _list_dir, "Remove": remove, "WatchDir": watch_dir,
    "CreateWatcher": _create_watcher, "GetWatcherEvents": _get_watcher_events, "RemoveWatcher": _remove_watcher,
}  # fmt: skip
