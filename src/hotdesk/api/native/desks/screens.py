"""Live views of desks: terminal and screen over WebSockets, and a person's control of the screen."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Annotated, Literal

import anyio
from fastapi import APIRouter, Query, WebSocket
from pydantic import Field
from starlette.websockets import WebSocketDisconnect, WebSocketState

from hotdesk.api.native.access.auth import ForDesks, RequestContext, get_native, on_socket
from hotdesk.api.native.desks.desks import connect_to_owner, find_desk, require_desk
from hotdesk.api.native.desks.viewers import new_name
from hotdesk.api.native.problems import ProblemError, document_errors, problem_from_error
from hotdesk.api.native.schema import DeskName, Model
from hotdesk.desk.login_shell import LOGIN_SHELL
from hotdesk.desk.seam import ID_SHAPE, DeskId, Process, Size
from hotdesk.errors import BriefError, DeskError, DeskGone, HotdeskError
from hotdesk.hands.page.websocket import relay
from hotdesk.hands.screen.remote_screen import Far

router = APIRouter(prefix="/desks/{desk}", tags=["screens"], responses=document_errors(409, 502))
NAMED = "^[a-z0-9]{0,32}$"
_VIEWER = "The value of `?viewer=` with which the caller opened the screen; empty: the caller's latest connection."
KEEPALIVE_INTERVAL_S = 30.0
"""Seconds between two requests that renew a person's control of the screen."""
MAX_VIEWS = 256
"""Open screens, terminals and streams of one tenant. Each has several descriptors of the server."""
GONE, REFUSED, FULL = 4404, 4403, 4429
"""Close codes of a WebSocket: the desk is gone, the caller may not view it, or the tenant's quota is used up."""


class WheelShown(Model):
    """Who watches a desk's screen, and who has control of it."""

    viewers: int
    paused: bool
    holder: str = Field(
        description="The person who has control, by their name in the journal; empty: no person has control."
    )
    mine: bool = Field(description="Whether the caller has control.")
    seconds: float
    stopped: bool = Field(
        description="Whether the desk's programs, except screen and browser, are stopped while a person has control."
    )
    worker: bool = Field(description="Whether a worker uses the desk; a takeover suspends it.")


Viewer = Annotated[str, Field(pattern=NAMED, description=_VIEWER)]


class Turn(Model):
    """Take control of a desk's screen, or hand it back."""

    act: Literal["take", "give"]
    viewer: Viewer = ""


@router.get("/wheel", summary="Who has control of the screen")
async def wheel(context: ForDesks, desk: DeskName, viewer: Viewer = "") -> WheelShown:
    """Return who watches a desk's screen and who has control of it."""
    async with owner(context, desk) as far:
        return _format_wheel(context, desk, viewer, await far.get_wheel())


@router.post("/wheel", summary="Take control of the screen, or hand it back")
async def turn(context: ForDesks, desk: DeskName, order: Turn) -> WheelShown:
    """Take control of a desk's screen, which suspends its worker, or hand it back.

    The client in control must be connected to the screen. While a desk is prepared or cleared between two steps,
    the screen is disconnected for a moment: on `wheel.blind` and `wheel.lost`, connect again and repeat the request.
    """
    await require_desk(context, desk)
    name = context.native.viewers.find_latest(context.caller, desk, order.viewer)
    if name is None:
        raise ProblemError(
            409,
            "wheel.blind",
            f"your client is not connected to the screen; open /desks/{desk}/screen first, then take control",
        )
    act = "take" if order.act == "take" else "hand back"
    async with owner(context, desk) as far:
        try:
            return _format_wheel(context, desk, order.viewer, await far.turn(act, name, ""))
        except BriefError as e:
            raise ProblemError(409, "wheel.taken", str(e)) from None
        except DeskGone:
            raise
        except DeskError as e:
            raise ProblemError(409, "wheel.lost", str(e)) from None


def _format_wheel(context: RequestContext, desk: str, viewer: str, reply: object) -> WheelShown:
    facts = reply if isinstance(reply, dict) else {}
    name = context.native.viewers.find_latest(context.caller, desk, viewer) or "-"
    driver = str(facts.get("driver", ""))
    return WheelShown(
        viewers=int(str(facts.get("viewers", 0))),
        paused=bool(facts.get("paused")),
        holder=str(facts.get("holder", "")),
        mine=bool(driver) and name.startswith(driver),
        seconds=float(str(facts.get("seconds", 0))),
        stopped=bool(facts.get("stopped")),
        worker=bool(facts.get("worker")),
    )


@asynccontextmanager
async def owner(context: RequestContext, desk: str) -> AsyncIterator[Far]:
    """Yield the connection to the owner of one of the tenant's desks: this server, or the process of a job."""
    await require_desk(context, desk)
    async with connect_to_owner(context, DeskId(desk)) as runtime:
        yield Far(runtime, DeskId(desk), context.by)


@router.websocket("/screen")
async def screen(websocket: WebSocket, desk: str, viewer: Annotated[str, Query(pattern=NAMED)] = "") -> None:
    """Show a desk's screen as RFB. Input has an effect only while its sender has control."""
    context = await admit_viewer(websocket, desk)
    if context is None:
        return
    name = new_name()
    try:
        with count_view(context):
            async with owner(context, desk) as far:
                with (
                    await far.open_screen(name, True) as sock,
                    context.native.viewers.looking(context.caller, desk, name, viewer),
                ):
                    await accept(websocket)
                    await _relay_screen(websocket, sock, far, name, context)
    except (HotdeskError, ProblemError) as e:
        await refuse(websocket, e)


async def _relay_screen(
    websocket: WebSocket, sock: socket.socket, far: Far, name: str, context: RequestContext
) -> None:
    """Relay bytes both ways until either side ends."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep_driving, far, name)
            tasks.start_soon(cancel_on_key_end, context, tasks.cancel_scope)
            await relay(sock, websocket.receive_bytes, websocket.send_bytes)
            tasks.cancel_scope.cancel()
    except* (WebSocketDisconnect, OSError, KeyError, RuntimeError):
        pass  # either side is gone, or the browser sent text
    await close(websocket, 1000, "")


async def _keep_driving(far: Far, viewer: str) -> None:
    """Renew the viewer's control of the screen until cancelled."""
    while True:
        await anyio.sleep(KEEPALIVE_INTERVAL_S)
        with suppress(HotdeskError):
            await far.turn("keep", viewer, "")


@router.websocket("/terminal")
async def terminal(
    websocket: WebSocket,
    desk: str,
    rows: Annotated[int, Query(ge=1, le=1000)] = 24,
    columns: Annotated[int, Query(ge=1, le=1000)] = 80,
) -> None:
    """Open a terminal. Binary messages are bytes in both directions; a text message is the new size."""
    context = await admit_viewer(websocket, desk)
    if context is None:
        return
    try:
        with count_view(context):
            async with find_desk(context, desk) as found:
                process = await found.start(LOGIN_SHELL, pty=Size(rows, columns), env={"TERM": "xterm-256color"})
                await accept(websocket)
                try:
                    await _relay_terminal(websocket, process, context)
                finally:
                    with anyio.move_on_after(5, shield=True), suppress(HotdeskError):
                        await process.kill()
    except (HotdeskError, ProblemError) as e:
        await refuse(websocket, e)


async def _relay_terminal(websocket: WebSocket, process: Process, context: RequestContext) -> None:
    """Relay input and output until the shell ends or the viewer disconnects."""
    async with anyio.create_task_group() as tasks:

        async def up() -> None:
            with suppress(HotdeskError):  # the desk is gone
                while (message := await websocket.receive())["type"] != "websocket.disconnect":
                    if (data := message.get("bytes")) is not None:
                        await process.send(data)
                    elif (size := _parse_terminal_size(message.get("text"))) is not None:
                        await process.resize(size)
            tasks.cancel_scope.cancel()

        async def down() -> None:
            with suppress(WebSocketDisconnect, RuntimeError, HotdeskError):
                async for _, data in process.output():
                    await websocket.send_bytes(data)
            tasks.cancel_scope.cancel()

        tasks.start_soon(up)
        tasks.start_soon(down)
        tasks.start_soon(cancel_on_key_end, context, tasks.cancel_scope)
    await close(websocket, 1000, "")


async def cancel_on_key_end(context: RequestContext, scope: anyio.CancelScope) -> None:
    """Close views and terminals once their key is revoked or expired."""
    await context.native.keys.wait_end(context.caller.key)
    scope.cancel()


def _parse_terminal_size(text: object) -> Size | None:
    """Parse a terminal's new size; `None` if it is invalid."""
    with suppress(ValueError, RecursionError, BriefError):
        match json.loads(str(text)):
            case {"rows": int(rows), "columns": int(columns)}:
                return Size(rows, columns)
    return None


async def admit_viewer(websocket: WebSocket, desk: str) -> RequestContext | None:
    """Return the viewer's context; if it may not view the desk, close the WebSocket and return `None`."""
    get_native(websocket)
    try:
        context = await on_socket(websocket, "desks")
        if not ID_SHAPE.fullmatch(desk):
            raise ProblemError(404, "desk.gone", "invalid desk id")
        await require_desk(context, desk)
        return context
    except ProblemError as e:
        await refuse(websocket, e)
    except HotdeskError as e:
        await close(websocket, GONE, str(problem_from_error(e)))
    return None


@contextmanager
def count_view(context: RequestContext) -> Iterator[None]:
    """Count a tenant's screen, terminal or stream while it is open; refuse it if too many are."""
    views, name = context.native.views, context.tenant.name
    if views[name] >= MAX_VIEWS:
        raise ProblemError(
            429, "views.many", f"{MAX_VIEWS} screens, terminals and streams are open already, the limit; close some"
        )
    views[name] += 1
    try:
        yield
    finally:
        views[name] -= 1


async def accept(websocket: WebSocket) -> None:
    offered = websocket.scope.get("subprotocols") or []
    await websocket.accept(subprotocol="binary" if "binary" in offered else None)


async def refuse(websocket: WebSocket, error: HotdeskError | ProblemError) -> None:
    """Close a WebSocket for an error. A full quota is reported after accepting: clients see no reason before."""
    status = error.status if isinstance(error, ProblemError) else 404
    if status == 429 and websocket.application_state is WebSocketState.CONNECTING:
        with suppress(RuntimeError, WebSocketDisconnect):
            await accept(websocket)
    code = {401: REFUSED, 403: REFUSED, 429: FULL}.get(status, GONE)
    await close(websocket, code, str(error))


async def close(websocket: WebSocket, code: int, why: str) -> None:
    """Close a WebSocket, unless it is closed already."""
    with suppress(RuntimeError, WebSocketDisconnect):
        await websocket.close(code, why[:100])
