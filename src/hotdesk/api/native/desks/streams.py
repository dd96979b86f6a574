"""A desk's link and ports over a WebSocket, for `hotdesk ssh --server`: raw bytes.

The server first sends the text `open`; an empty message ends one direction. On a link, the desk's owner treats the
caller as a borrower (`desk/link/lend.py`).
"""

from __future__ import annotations

import socket
from typing import Annotated

import anyio
from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from hotdesk.api.native.access.auth import RequestContext
from hotdesk.api.native.desks.desks import STOPPED, connect_to_owner, require_desk
from hotdesk.api.native.desks.screens import accept, admit_viewer, cancel_on_key_end, close, count_view, refuse
from hotdesk.api.native.problems import ProblemError
from hotdesk.desk.room.room import GATE
from hotdesk.desk.seam import DeskId
from hotdesk.errors import BriefError, HotdeskError
from hotdesk.linux.sockets import receive, send

router = APIRouter(prefix="/desks/{desk}", tags=["streams"])
OPENED = "open"
LINKS = ("link", "root")
_BROKEN = 1011
"""Close code of a stream that broke off, or was cut because the key ended: after 1000 it would look complete."""


@router.websocket("/stream")
async def stream(
    websocket: WebSocket, desk: str, to: Annotated[str, Query(pattern="^(link|root|[1-9][0-9]{0,4})$")] = "link"
) -> None:
    """Forward bytes to and from a desk's guest, `root`'s guest, or a port of the desk."""
    context = await admit_viewer(websocket, desk)
    if context is None:
        return
    await accept(websocket)
    try:
        with count_view(context):
            is_whole = await _connect(websocket, desk, to, context)
        await close(websocket, *((1000, "") if is_whole else (_BROKEN, "the stream broke off")))
    except (HotdeskError, ProblemError) as e:
        await refuse(websocket, e)


async def _connect(websocket: WebSocket, desk: str, to: str, context: RequestContext) -> bool:
    async with connect_to_owner(context, DeskId(desk)) as runtime:
        if (await require_desk(context, desk)).state in STOPPED:
            raise BriefError(f"desk {desk} is paused; POST /desks/{desk}/resume resumes it")
        with await runtime.upgrade(f"/desks/{desk}/{_name_route(to)}", "hotdesk-stream") as sock:
            await websocket.send_text(OPENED)
            return await carry(websocket, sock, context)


def _name_route(to: str) -> str:
    if to in LINKS:
        return to
    if int(to) == GATE[1] or int(to) >= 1 << 16:
        raise BriefError(
            f"port {to} cannot be forwarded; use 1 to 65535, except {GATE[1]}, the port of the desk's egress proxy"
        )
    return f"dial/{to}"


async def carry(websocket: WebSocket, sock: socket.socket, context: RequestContext) -> bool:
    """Relay bytes both ways until both directions end, either side is gone, or the caller's key ends.

    Return whether the stream is complete. After the end of the desk's direction its program may leave data unread.
    """
    ended = anyio.Event()
    is_received = is_whole = False
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_on_key_end, context, tasks.cancel_scope)
            tasks.start_soon(_pass_up, websocket, sock, ended)
            await _send_down(websocket, sock)
            is_received = True
            await ended.wait()
            is_whole = True
            tasks.cancel_scope.cancel()
    except* (WebSocketDisconnect, KeyError, RuntimeError):
        pass  # the caller is gone, or sent text
    except* OSError:
        is_whole = is_received
    return is_whole


async def _pass_up(websocket: WebSocket, sock: socket.socket, ended: anyio.Event) -> None:
    """Forward what the caller sends until its end; a caller that disconnects ends both directions, also after it."""
    while data := await websocket.receive_bytes():
        await send(sock, data)
    sock.shutdown(socket.SHUT_WR)
    ended.set()
    while True:
        await websocket.receive_bytes()


async def _send_down(websocket: WebSocket, sock: socket.socket) -> None:
    while data := await receive(sock):
        await websocket.send_bytes(data)
    await websocket.send_bytes(b"")
