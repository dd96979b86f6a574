"""Connect to ports of a desk through its guest where the keeper cannot: the link carries the bytes."""

from __future__ import annotations

import contextlib
import math
import socket
from collections.abc import Awaitable, Callable

import anyio

from hotdesk.desk.link.channel import GRACE_S, UNEXPECTED_FRAME, Channel, Data, GuestEvent, GuestReply
from hotdesk.desk.link.lend import is_gone
from hotdesk.desk.link.link import Link
from hotdesk.errors import DeskError, HotdeskError, LinkError
from hotdesk.linux.sockets import receive, send

_CONNECT_TIMEOUT_S = 10.0
_MAX_TEXT = 200


async def call_port(
    link: Link, desk: str, port: int, start: Callable[[Callable[[], Awaitable[None]]], None]
) -> socket.socket:
    """Connect to a port through the guest; return a socket for the bytes. `start` starts the task that copies them.

    A paused desk connects when it resumes; bytes sent until then wait.
    """
    channel = await link.open({"op": "dial", "port": port})
    is_connected = not link.paused
    try:
        if is_connected:
            await wait_connected(channel, desk, port)
        ours, theirs = socket.socketpair()
    except BaseException:
        with anyio.move_on_after(GRACE_S, shield=True):
            await channel.drop()
        raise
    for end in (ours, theirs):
        end.setblocking(False)
    link.carried += 1
    start(lambda: carry(link, channel, ours, "" if is_connected else desk, port))
    return theirs


async def wait_connected(channel: Channel, desk: str, port: int, seconds: float = _CONNECT_TIMEOUT_S) -> None:
    """Wait until the guest reports a connection."""
    item = None
    with anyio.move_on_after(seconds):
        item = await channel.receive()
    match item:
        case None:
            raise DeskError(f"port {port} of desk {desk} did not respond within {seconds:.0f} s")
        case GuestEvent({"connected": True}):
            return
        case GuestReply(body) if "error" in body:
            raise DeskError(f"cannot connect to port {port} of desk {desk}: {str(body.get('text'))[:_MAX_TEXT]}")
    raise LinkError(UNEXPECTED_FRAME)


async def carry(link: Link, channel: Channel, sock: socket.socket, waiting: str, port: int) -> None:
    """Copy bytes both ways until both sides have ended, one fails, or the caller is gone.

    `waiting` is the id of a desk whose guest has yet to connect; empty if it has connected.
    """
    try:
        if waiting:
            await wait_connected(channel, waiting, port, math.inf)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_bring_out, channel, sock, tasks.cancel_scope)
            while data := await receive(sock):
                await channel.send(data)
            await channel.end()
            if is_gone(sock):
                tasks.cancel_scope.cancel()  # a server inside may keep its side open forever
    except* (OSError, HotdeskError):
        pass  # one side failed or the desk ended: the other ends, too
    finally:
        link.carried -= 1
        sock.close()
        with anyio.move_on_after(GRACE_S, shield=True), contextlib.suppress(HotdeskError):
            await channel.drop()


async def _bring_out(channel: Channel, sock: socket.socket, scope: anyio.CancelScope) -> None:
    while True:
        match await channel.receive():
            case Data(_, data):
                await send(sock, data)
            case GuestEvent({"end": True}):
                sock.shutdown(socket.SHUT_WR)
                return
            case _:
                scope.cancel()  # the connection failed
                return
