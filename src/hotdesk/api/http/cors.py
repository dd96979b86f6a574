"""CORS for E2B's API: scripts of pages that the operator lists may use it, with keys they send themselves.

No response allows credentials, so a browser sends no cookie of ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Scope, Send

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
_EXPOSED = "x-next-token, retry-after, should-retry, content-disposition, content-range, grpc-status, grpc-message"
_REQUESTED = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,2048}")
_MAX_AGE_S = "600"


def find_origin(headers: Headers, listed: Collection[str]) -> str:
    """Return the origin of the page whose script sends the request if it is listed, else an empty string."""
    origins = headers.getlist("origin")
    return origins[0] if len(origins) == 1 and origins[0] in listed else ""


def is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["type"] == "http" and scope["method"] == "OPTIONS" and "access-control-request-method" in headers


def names_header(headers: Headers, name: str) -> bool:
    """Return whether the announced request has a header; a preflight has only the header's name."""
    requested = headers.get("access-control-request-headers", "")
    return name in (each.strip().lower() for each in requested.split(","))


def answer_preflight(headers: Headers, origin: str) -> Response:
    """Allow a listed page's script to send its request; authorization happens when that arrives."""
    requested = headers.get("access-control-request-headers", "")
    allowed = {"access-control-allow-headers": requested} if _REQUESTED.fullmatch(requested) and requested else {}
    return Response(
        status_code=204,
        headers={
            "access-control-allow-origin": origin,
            "access-control-allow-methods": _METHODS,
            "access-control-max-age": _MAX_AGE_S,
            "vary": "Origin, Access-Control-Request-Headers",
            **allowed,
        },
    )


def wrap_send(send: Send, origin: str) -> Send:
    async def send_with_origin(message: Message) -> None:
        if message["type"] == "http.response.start":
            fields = MutableHeaders(scope=message)
            for name in [name for name in fields if name.startswith("access-control-")]:
                del fields[name]
            fields["access-control-allow-origin"] = origin
            fields["access-control-expose-headers"] = _EXPOSED
            fields.add_vary_header("Origin")
        await send(message)

    return send_with_origin
