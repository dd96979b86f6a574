"""The Connect protocol as E2B's SDKs speak it: JSON, one object or a stream of envelopes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.responses import answer

MESSAGE, COMPRESSED, END = 0, 1, 2
MAX_BYTES = 16 << 20
"""Bytes of one message."""
STATUS = {
    "canceled": 499, "not_found": 404, "already_exists": 409, "invalid_argument": 400, "unauthenticated": 401,
    "permission_denied": 403, "resource_exhausted": 429, "unimplemented": 501, "internal": 500, "unknown": 500,
    "unavailable": 503, "deadline_exceeded": 504,
}  # fmt: skip

Message: TypeAlias = dict[str, object]
Say: TypeAlias = Callable[[Message], Awaitable[None]]
"""Sends one message of a stream."""


class RpcError(Exception):
    """An error of a call, with Connect's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def body(self) -> dict[str, str]:
        return {"code": self.code, "message": str(self)}

    def make_response(self) -> Response:
        return answer(self.body, STATUS[self.code])


class Envelopes(Response):
    """A stream of messages, sent as they arrive; it ends when its reader disconnects."""

    media_type = "application/connect+json"

    def __init__(self, tell: Callable[[Say], Awaitable[None]]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.tell = tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def put(data: bytes, more: bool = True) -> None:
            nonlocal begun
            if not begun:  # with the first message, which every stream has soon: one packet, as envd itself does
                begun = True
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": data, "more_body": more})

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(cancel_on_disconnect, receive, tasks.cancel_scope)
                last = await _run_stream(self.tell, lambda message: put(encode_envelope(message)))
                await put(encode_envelope(last, END), more=False)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None


async def _run_stream(tell: Callable[[Say], Awaitable[None]], say: Say) -> Message:
    """Send a stream; return the content of its last envelope."""
    try:
        await tell(say)
    except RpcError as e:
        return {"error": e.body}
    return {}


async def cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def encode_envelope(value: object, flags: int = MESSAGE) -> bytes:
    data = json.dumps(value, separators=(",", ":")).encode()
    return bytes((flags,)) + len(data).to_bytes(4, "big") + data


async def unary(request: Request) -> Message:
    body = bytearray()
    async for data in read_body(request):
        body += data
        if len(body) > MAX_BYTES:
            raise RpcError("resource_exhausted", f"a message has more than {MAX_BYTES >> 20} MiB; send less at a time")
    return _as_message(bytes(body))


async def iterate_messages(request: Request) -> AsyncIterator[Message]:
    buffer = bytearray()
    async for data in read_body(request):
        buffer += data
        while (envelope := take(buffer)) is not None:
            flags, payload = envelope
            if not flags & END:
                yield _as_message(payload)
    if buffer:
        raise RpcError("invalid_argument", "the request ended in the middle of a message; send it again")


def take(buffer: bytearray) -> tuple[int, bytes] | None:
    """Take the next envelope off a buffer; `None` until it is complete."""
    if len(buffer) < 5:
        return None
    flags, size = buffer[0], int.from_bytes(buffer[1:5], "big")
    if flags & COMPRESSED:
        raise RpcError("invalid_argument", "compressed messages are not supported; send the message uncompressed")
    if size > MAX_BYTES:
        raise RpcError("resource_exhausted", f"a message has more than {MAX_BYTES >> 20} MiB; send less at a time")
    if len(buffer) < 5 + size:
        return None
    payload = bytes(buffer[5 : 5 + size])
    del buffer[: 5 + size]
    return flags, payload


async def read_single_message(request: Request) -> Message:
    """Return the only message of a call with a streaming response; the rest is read, so that the next call is whole."""
    found: Message | None = None
    async for message in iterate_messages(request):
        found = message if found is None else found
    if found is None:
        raise RpcError("invalid_argument", "the request has no message; send one")
    return found


async def read_body(request: Request) -> AsyncIterator[bytes]:
    """Yield a body's bytes; compressed bodies are refused."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RpcError("unimplemented", "compressed requests are not supported; send the body uncompressed")
    try:
        async for data in request.stream():
            yield data
    except ClientDisconnect:
        raise RpcError("canceled", "the client disconnected") from None


def _as_message(data: bytes) -> Message:
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RpcError("invalid_argument", "a message must be a JSON object")
    return value


def parse_deadline(request: Request) -> float | None:
    """Return the seconds that the caller allows a call; `None` if it sets no limit."""
    text = request.headers.get("connect-timeout-ms", "")
    return int(text) / 1000 if text.isdecimal() and text.isascii() and 0 < len(text) <= 10 and int(text) else None


def parse_keepalive(request: Request) -> float:
    """Return the seconds of silence after which a stream sends a keepalive."""
    text = request.headers.get("keepalive-ping-interval", "")
    return float(text) if text.isdecimal() and text.isascii() and 0 < len(text) <= 5 and int(text) else 90.0
