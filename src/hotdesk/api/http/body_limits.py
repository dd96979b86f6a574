"""Reads request bodies completely before a handler runs: limited in size and time, stricter without a valid key."""

from __future__ import annotations

import re

import anyio
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

MAX_BODY_BYTES = 1 << 20
"""Maximum bytes of a request body that is not a file."""
MAX_ANONYMOUS_BYTES = 16 << 10
"""Maximum bytes of a request body without a valid key: enough to sign in."""
TIMEOUT_S = 30.0
"""Seconds in which a body must arrive."""
FILES = re.compile(
    r"/api/v1/(?:uploads|drive/.*|desks/[^/]*/file)|/volumecontent/[^/]*/file|/templates/[^/]*/files/[0-9a-f]{64}"
)
"""Paths for files, which handlers read in pieces with their own limits, after authenticating the sender."""


class BodyError(Exception):
    """A body that is too large, too slow or interrupted; `status` is the HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def is_whole(scope: Scope, headers: Headers) -> bool:
    has_body = "content-length" in headers or "transfer-encoding" in headers
    return has_body and scope["type"] == "http" and FILES.fullmatch(scope["path"]) is None


async def buffer_body(receive: Receive, headers: Headers, most: int) -> Receive:
    """Read a body; return a `receive` that delivers it in one piece."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise _make_too_large_error(most)
    data = bytearray()
    with anyio.move_on_after(TIMEOUT_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BodyError(400, "request.left", "the client disconnected before the body was read")
            data += message.get("body", b"")
            if len(data) > most:
                raise _make_too_large_error(most)
            if not message.get("more_body"):
                return _replay_message({**message, "body": bytes(data)}, receive)
    raise BodyError(408, "request.slow", f"the body was not received within {TIMEOUT_S:g} s; send it again")


def _make_too_large_error(most: int) -> BodyError:
    if most == MAX_ANONYMOUS_BYTES:
        why = "the limit for requests without a valid key; send a valid key, or less data"
    else:
        why = "the limit for a request that is not a file; send less data, or upload it as a file"
    return BodyError(413, "request.too-large", f"the body has more than {most >> 10} KiB, {why}")


def _replay_message(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def receive_again() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_again
