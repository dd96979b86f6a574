"""Header filters for requests into a sandbox and for its responses. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from starlette.types import Scope

from hotdesk.api.e2b.ports.shares import strip_query
from hotdesk.dataclass import dataclass
from hotdesk.door.http.framing import (
    Body,
    Headers,
    HttpMessageError,
    Response,
    Version,
    end_to_end,
    parse_framing,
    request_head,
)

OURS = re.compile(
    rb"e2b-.*|hotdesk-share|x-api-key|x-access-token|expect|http2-settings|x-forwarded-.*|forwarded|x-real-ip"
)
"""Headers for this server, or that only it may set: no program inside receives them."""
KEY = re.compile(rb"e2b_[0-9a-f]{40}")
"""A key of this server, anywhere in a request."""
COOKIE = re.compile(rb"(?i)\s*(?:__(?:host|secure)-)?hotdesk")
"""The beginning of the names of this server's own cookies."""
DOMAIN = re.compile(rb"(?i);\s*domain\s*=")
_NOT_FORWARDED = frozenset((b"alt-svc", b"clear-site-data", b"strict-transport-security", b"content-length"))
"""Response headers that are dropped: most would affect more than the sandbox's own host name."""
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True, slots=True)
class Inward:
    """A request as it is sent into a sandbox."""

    head: bytes
    method: str
    body: Body
    accept: bytes = b""
    """The `Sec-WebSocket-Accept` that the server inside must answer; empty for a plain request."""


def build_inward_request(scope: Scope, host: str | None) -> Inward:
    """Build a request for the server inside; `host`, if given, replaces the name it was sent to."""
    headers = Headers(scope["headers"])
    version: Version = "1.0" if scope["http_version"] == "1.0" else "1.1"
    body = parse_framing(headers, version)
    method = str(scope["method"])
    if method in ("CONNECT", "TRACE"):
        raise HttpMessageError(405, f"the method {method} is not supported")
    accept = _check_handshake(headers, method, body)
    fields = [(b"host", (headers.get_single(b"host") or b"localhost") if host is None else host.encode())]
    fields += [pair for name, value in end_to_end(headers) if (pair := _filter_header(name, value)) and name != b"host"]
    if accept:
        fields += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    else:
        fields = [pair for pair in fields if not pair[0].startswith(b"sec-websocket-")] + [(b"connection", b"close")]
    if body == "chunked":
        fields.append((b"transfer-encoding", b"chunked"))
    query = strip_query(scope["query_string"])
    target = scope["raw_path"] + (b"?" + query if query else b"")
    spelt = Headers((canonicalize_name(name), value) for name, value in fields)
    return Inward(request_head(method, target, spelt), method, body, accept)


def canonicalize_name(name: bytes) -> bytes:
    """Spell a header's name as Go does, and so E2B's proxy: each word capitalized."""
    return b"-".join(word.capitalize() for word in name.split(b"-"))


def _filter_header(name: bytes, value: bytes) -> tuple[bytes, bytes] | None:
    """Return a header as a sandbox may receive it; `None` to drop it."""
    if OURS.fullmatch(name) or KEY.search(value):
        return None
    if name != b"cookie":
        return name, value
    cookies = b";".join(pair for pair in value.split(b";") if not COOKIE.match(pair)).strip()
    return (name, cookies) if cookies else None


def _check_handshake(headers: Headers, method: str, body: Body) -> bytes:
    """Return what a WebSocket server must answer; empty for a plain request. Refuse an invalid handshake."""
    if b"upgrade" not in headers.get_list(b"connection") or headers.get_list(b"upgrade") != [b"websocket"]:
        return b""
    key = headers.get_single(b"sec-websocket-key") or b""
    try:
        right = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        right = False
    if not right or method != "GET" or body or headers.get_single(b"sec-websocket-version") != b"13":
        raise HttpMessageError(
            400,
            (
                "the request is not a valid WebSocket handshake; send GET without a body, Sec-WebSocket-Version 13 and "
                "a Sec-WebSocket-Key of 16 bytes in base64"
            ),
        )
    return base64.b64encode(hashlib.sha1(key + MAGIC, usedforsecurity=False).digest())


def build_outward_headers(response: Response) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response for the client; its length is the one that framed the body."""
    fields = [pair for pair in end_to_end(response.headers, _NOT_FORWARDED) if not is_ours(*pair)]
    length = response.headers.get(b"content-length") if response.status not in (204, 304) else None
    if length is not None and length.isdigit():
        fields.append((b"content-length", length))
    return fields


def is_ours(name: bytes, value: bytes) -> bool:
    """Return whether a header would set a cookie for other hosts, or one of the server's own."""
    return name.lower() == b"set-cookie" and (DOMAIN.search(value) is not None or COOKIE.match(value) is not None)


def format_upgrade(response: Response, accept: bytes) -> bytes:
    """Return the response to a handshake; refuse one that does not accept it."""
    headers = response.headers
    right = (
        headers.get_list(b"upgrade") == [b"websocket"]
        and b"upgrade" in headers.get_list(b"connection")
        and headers.get_single(b"sec-websocket-accept") == accept
    )
    if not right:
        raise HttpMessageError(502, "the program on this port did not answer the WebSocket handshake correctly")
    fields = [*build_outward_headers(response), (b"upgrade", b"websocket"), (b"connection", b"Upgrade")]
    lines = b"".join(b"%b: %b\r\n" % pair for pair in fields if pair[0].lower() != b"content-length")
    return b"HTTP/1.1 101 Switching Protocols\r\n%b\r\n" % lines
