"""Responses of the door itself: denials that a model can act on, and `http://door.local/`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hotdesk.door.http import framing

LOCAL = "door.local"
HOW_TO_ASK = (
    'POST http://door.local/ask with header "X-Hotdesk-Ask: 1" and body {"rule": "GET host/path", "reason": "why"}'
)
NO_PERMISSION_MISSING = "no permission is missing, so there is nothing to ask for"
REASONS = {
    400: b"Bad Request", 403: b"Forbidden", 404: b"Not Found", 408: b"Request Timeout",
    413: b"Content Too Large", 414: b"URI Too Long",
    417: b"Expectation Failed", 429: b"Too Many Requests", 431: b"Request Header Fields Too Large",
    501: b"Not Implemented", 502: b"Bad Gateway", 503: b"Service Unavailable", 504: b"Gateway Timeout",
    505: b"HTTP Version Not Supported", 200: b"OK",
}  # fmt: skip


class ExchangeError(Exception):
    """The door responds itself, with this status and reason."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def sanitize_text(text: str, most: int = 200) -> str:
    """Return text that a desk influenced in a form safe to show: at most `most` characters, all printable ASCII."""
    text = text[:most]
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in text)


def describe_denial(
    what: str, why: str, allowed: Sequence[str] = (), may_ask: bool = False, remedy: str = ""
) -> dict[str, object]:
    """Describe a denial for the desk. Without `remedy` it reads how to request more access, or that it cannot."""
    remedy = remedy or (
        HOW_TO_ASK
        if may_ask
        else "this desk cannot request more access; work with what is allowed and the desk's files"
    )
    return {"refused": sanitize_text(what), "rule": sanitize_text(why, 400), "allowed": list(allowed), "ask": remedy}


def answer(status: int, value: object, *, keep: bool, head_only: bool = False, reason: bytes = b"") -> bytes:
    body = json.dumps(value).encode() + b"\n"
    headers = framing.Headers(
        (
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Cache-Control", b"no-store"),
            (b"X-Hotdesk-Door", b"refused" if status >= 400 else b"answered"),
            (b"Connection", b"keep-alive" if keep else b"close"),
        )
    )
    head = framing.format_response_head(status, reason or REASONS.get(status, b"Refused"), headers)
    return head if head_only else head + body
