"""HTTP/1.1 on an owner's control socket: requests of limited size, replies, and upgrades to streams."""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Mapping

import anyio
import h11

from hotdesk.errors import BriefError, HotdeskError
from hotdesk.linux.sockets import receive, send
from hotdesk_guest import wire

BODY_LIMIT = 1 << 16
_TOOL_CALL = re.compile(rb"/desks/[^/]{1,64}/tools/[^/]{1,64}")
REQUEST_SECONDS = 30.0
_EXPLAIN_SECONDS = 1.0
_REMEDY = "put the large part into a file"


async def read_request(sock: socket.socket, limit: int = BODY_LIMIT) -> tuple[h11.Request, bytes]:
    connection = h11.Connection(h11.SERVER)
    request = await read_head(sock, connection)
    return request, await read_body(sock, connection, limit)


async def read_head(sock: socket.socket, connection: h11.Connection) -> h11.Request:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await receive(sock))
        elif isinstance(event, h11.Request):
            return event
        else:
            raise h11.RemoteProtocolError("the client disconnected")


async def read_body(sock: socket.socket, connection: h11.Connection, limit: int) -> bytes:
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await receive(sock))
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > limit:
                raise BriefError(f"the request has more than {limit} bytes, which is the limit; {_REMEDY}")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        else:
            raise h11.RemoteProtocolError("the client disconnected")


def is_large_tool_call(request: h11.Request) -> bool:
    """Return whether a request is a tool call that announces more than the usual limit."""
    size = int(dict(request.headers).get(b"content-length", b"0"))
    return request.method == b"POST" and size > BODY_LIMIT and _TOOL_CALL.fullmatch(request.target) is not None


async def switch(sock: socket.socket, protocol: str, fields: Mapping[str, str] | None = None) -> None:
    more = "".join(f"{name}: {value}\r\n" for name, value in (fields or {}).items())
    answer = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n{more}\r\n"
    await send(sock, answer.encode())


async def respond(sock: socket.socket, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} {'OK' if status < 400 else 'Error'}\r\nContent-Type: application/json\r\n"
    with anyio.fail_after(REQUEST_SECONDS):
        await send(sock, f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)


async def explain(sock: socket.socket, why: HotdeskError) -> None:
    """Tell a caller why its desk ended: a reply on channel 0, which no guest uses."""
    with anyio.move_on_after(_EXPLAIN_SECONDS), contextlib.suppress(OSError):
        await send(sock, wire.encode_frame(wire.REPLY, 0, wire.encode({"text": str(why)})))
