"""Recognize the guest among the processes that connect to a desk's owner, by its token.

Behind a wall whose programs all connect through one process of the host, nothing else distinguishes them. Callers are
hostile: each may send one bounded frame within a time limit, many are handled at once, and none learns why it failed.
"""

from __future__ import annotations

import hmac
import os
import socket
from dataclasses import field

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from hotdesk.dataclass import dataclass
from hotdesk.desk.link.channel import Body
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.sockets import accept, get_peer, receive
from hotdesk_guest import wire

_HELLO_SECONDS = 2.0
_MAX_HELLO_BYTES = 1024
_MAX_CALLERS = 64
"""Maximum callers handled at a time. Others are disconnected, and the guest tries again."""


def new_token() -> str:
    return os.urandom(32).hex()


@dataclass(slots=True)
class Recognition:
    """The search for one guest among its callers."""

    caller: tuple[object, object]
    """Pid and user id from which the desk's programs connect."""
    token: str
    found: tuple[socket.socket, Body] | None = None
    callers: int = 0
    done: anyio.Event = field(default_factory=anyio.Event)

    async def listen(self, listener: socket.socket, tasks: TaskGroup) -> None:
        """Accept connections until the guest is found."""
        while True:
            sock = await accept(listener)
            if get_peer(sock) != self.caller or self.callers >= _MAX_CALLERS:
                sock.close()
                await anyio.lowlevel.checkpoint()
                continue
            self.callers += 1
            tasks.start_soon(self.hear, sock)

    async def hear(self, sock: socket.socket) -> None:
        """Read a caller's first frame; disconnect a caller without the token."""
        hello: Body | None = None
        sock.setblocking(False)
        try:
            with anyio.move_on_after(scale_seconds(_HELLO_SECONDS)):
                hello = await _read_hello(sock)
        finally:
            self.callers -= 1
            if hello is not None and self.found is None and is_right(hello, self.token):
                self.found = (sock, hello)
                self.done.set()
            else:
                sock.close()


async def _read_hello(sock: socket.socket) -> Body | None:
    """Read a guest's first frame; return `None` for anything else, or if more data follows."""
    reader = wire.FrameReader(frozenset((wire.HELLO,)), _MAX_HELLO_BYTES)
    try:
        while (frame := reader.read_next()) is None:
            data = await receive(sock)
            if not data:
                return None
            reader.buffer += data
        body = wire.decode(frame[2], wire.MAX_PARTS)
        has_more = reader.read_next() is not None or bool(reader.buffer)
    except (wire.WireError, OSError):
        return None
    return body if not has_more and isinstance(body, dict) and body.get("version") == wire.VERSION else None


def is_right(hello: Body, token: str) -> bool:
    """Return whether a caller has the token, compared in constant time."""
    shown = hello.get("token")
    return (
        isinstance(shown, str) and bool(token) and hmac.compare_digest(shown.encode(errors="replace"), token.encode())
    )


async def recognize(listener: socket.socket, caller: tuple[object, object], token: str) -> tuple[socket.socket, Body]:
    """Return the guest's connection, ignoring all others. The caller sets the time limit."""
    search = Recognition(caller, token)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search.listen, listener, tasks)
            await search.done.wait()
            tasks.cancel_scope.cancel()
    except BaseException:
        if search.found is not None:
            search.found[0].close()
        raise
    assert search.found is not None
    return search.found
