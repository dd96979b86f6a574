"""Requests whose bodies arrive in pieces, as from a server."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from itertools import pairwise
from typing import TypeVar

import anyio
from starlette.requests import Request
from starlette.types import Message

T = TypeVar("T")


def run(what: Awaitable[T]) -> T:
    async def waited() -> T:
        return await what

    return anyio.run(waited)


def asked(
    data: bytes = b"", cuts: Iterable[int] = (), headers: Mapping[str, str] | None = None, *, whole: bool = True
) -> Request:
    """Return a request whose body arrives in pieces; an incomplete body ends with a disconnect."""
    lines = [(name.encode(), value.encode("latin-1", "replace")) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": lines}
    events = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces(data, cuts)]
    events.append({"type": "http.request", "body": b"", "more_body": False} if whole else {"type": "http.disconnect"})

    async def receive() -> Message:
        return events.pop(0)

    return Request(scope, receive)


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Cut bytes at these offsets, without empty pieces."""
    places = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    return [data[first:last] for first, last in pairwise(places)]
