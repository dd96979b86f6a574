"""Heads of HTTP/2 requests, limited to what HTTP/1.1 can express: one host, a path, no framing headers. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote

from hotdesk.dataclass import dataclass

Header = tuple[bytes, bytes]
_TARGET = re.compile(rb"/[!\"$-~]*")
"""A path with its query: printable, without a fragment."""
_METHOD = re.compile(rb"[A-Z]{1,20}")
_AUTHORITY = re.compile(rb"[A-Za-z0-9.:_\[\]-]{1,260}")
_NAME = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_DROPPED = frozenset((b"te", b"expect", b"http2-settings"))
"""Headers about the connection, which are not passed on."""
_FRAMING = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
"""Headers that HTTP/2 forbids."""


class HeadError(Exception):
    """An invalid request head."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    path: str
    raw_path: bytes
    query: bytes
    headers: list[Header]


def read_head(fields: Iterable[Header], *, has_body: bool, max_headers: int) -> RequestHead:
    """Parse a request's fields; `HeadError` for what HTTP/1.1 could not express or would read differently."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[Header] = []
    cookies: list[bytes] = []
    for count, (name, value) in enumerate(fields):
        if count >= max_headers:
            raise HeadError("too many headers")
        if name.startswith(b":"):
            if name in pseudo or headers or cookies:
                raise HeadError("a pseudo-header is repeated, or follows a regular header")
            pseudo[name] = value
        elif not _NAME.fullmatch(name) or not _VALUE.fullmatch(value) or name in _FRAMING:
            raise HeadError("the request has a header that HTTP/2 does not allow")
        elif name == b"cookie":
            cookies.append(value)
        elif name not in _DROPPED:
            headers.append((name, value.strip(b" \t")))
    if cookies:
        headers.append((b"cookie", b"; ".join(cookies)))  # clients may send cookies in separate fields
    return _assemble(pseudo, headers, has_body=has_body)


def _assemble(pseudo: dict[bytes, bytes], headers: list[Header], *, has_body: bool) -> RequestHead:
    method, target = pseudo.get(b":method", b""), pseudo.get(b":path", b"")
    hosts = [value for name, value in headers if name == b"host"]
    authority = pseudo.get(b":authority") or (hosts[0] if len(hosts) == 1 else b"")
    if not _METHOD.fullmatch(method) or method == b"CONNECT" or not _TARGET.fullmatch(target):
        raise HeadError("the request has an invalid :method or :path")
    if set(pseudo) - {b":method", b":path", b":scheme", b":authority"} or pseudo.get(b":scheme") != b"https":
        raise HeadError("the request must use the scheme https and no unknown pseudo-headers")
    if not _AUTHORITY.fullmatch(authority) or any(value != authority for value in hosts):
        raise HeadError("the request has no valid host, or more than one")
    fields = [(b"host", authority), *(pair for pair in headers if pair[0] != b"host")]
    if has_body and not any(name == b"content-length" for name, _ in fields):
        fields.append((b"transfer-encoding", b"chunked"))  # how HTTP/1.1 marks a body without a length
    raw_path, _, query = target.partition(b"?")
    return RequestHead(method.decode(), unquote(raw_path.decode()), raw_path, query, fields)


def write_head(status: int, headers: Iterable[Header]) -> list[Header]:
    """Return the fields of a response head; `RuntimeError` for headers that are not allowed."""
    fields = [(b":status", str(status).encode())]
    for name, value in headers:
        lowered = name.lower()
        if not _NAME.fullmatch(lowered) or not _VALUE.fullmatch(value):
            raise RuntimeError("the response has a header that cannot be sent")
        if lowered not in _FRAMING:
            fields.append((lowered, value))
    return fields
