"""Split the head of an outgoing request into the parts a secret may go into, and join it again. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote, unquote_to_bytes

from hotdesk.brief import SecretPlace
from hotdesk.dataclass import dataclass
from hotdesk.door.secrets.placeholder import PLACEHOLDER, PREFIX

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Slot: TypeAlias = tuple[str, str]
"""A place in a head: `header`, `cookie` or `query`, and its folded name."""
AUTHORIZATION: Slot = ("header", "authorization")
IDENTITY = b"x-hotdesk-identity"
"""A header that only the door sets: one sent by a desk is removed."""
_WITHHELD = frozenset({b"accept-encoding", b"x-accept-encoding", b"a-im", b"sec-websocket-extensions"})
"""Request headers that allow a response in encodings that cannot be scrubbed; for ranges see `is_withheld`."""
UPLOADED = frozenset({b"content-range", b"x-amz-copy-source-range", b"x-goog-copy-source-range", b"x-ms-source-range"})
"""Ranges of data that a server reads in: none of it comes back."""
CARRIED = re.compile(rb"(?:(?!(?i:basic) )[A-Za-z][A-Za-z0-9-]{0,30} )?(" + PLACEHOLDER.pattern + rb")")
COOKIES, PARAMETERS = 256, 512
"""Limits on parsing: each member is checked in several ways while all other tasks wait."""
BASIC = re.compile(rb"(?i:basic) +([A-Za-z0-9+/=_-]+)")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way out, as the policy read it."""

    scheme: str
    host: str
    port: int
    method: str
    path: str
    """The canonical path, as it is sent."""
    query: bytes
    """The query as it is sent, without the question mark."""
    headers: Headers
    """End-to-end headers, without those that `Connection` names."""


@lru_cache(maxsize=1024)
def fold(name: bytes) -> bytes:
    """Normalise a header's name: some servers take `_` for `-`."""
    return name.strip().lower().replace(b"_", b"-")


def get_slot(place: SecretPlace) -> Slot:
    match place.kind:
        case "bearer" | "basic":
            return AUTHORIZATION
        case "header":
            return "header", fold(place.name.encode()).decode()
    return place.kind, place.name


def is_pinned(place: SecretPlace, out: Outgoing) -> bool:
    """Return whether a place allows this method and path. Places other than headers must name both."""
    if place.kind in ("query", "form", "json") and not (place.method and place.path):
        return False
    return place.method in ("", out.method) and place.path in ("", out.path)


def explain_excess(out: Outgoing) -> str | None:
    """Explain which part of a head has too many members to be parsed; it counts separators only."""
    if sum(value.count(b";") + 1 for name, value in out.headers if fold(name) == b"cookie") > COOKIES:
        return f"the request has too many cookies; the limit is {COOKIES}"
    if out.query.count(b"&") >= PARAMETERS:
        return f"the request has too many query parameters; the limit is {PARAMETERS}"
    return None


def split_head(out: Outgoing) -> list[tuple[Slot, bytes]]:
    """Split a head into the parts that a secret may go into: headers, cookies, query parameters."""
    found: list[tuple[Slot, bytes]] = []
    for name, value in out.headers:
        folded = fold(name)
        if folded == b"cookie":
            found += [(("cookie", one.decode("latin-1")), content) for one, content in _split_cookies(value)]
        elif folded != IDENTITY:
            found.append((("header", folded.decode("latin-1")), value.strip(b" \t")))
    return found + [(("query", name), value) for name, value, _ in split_parameters(out.query)]


def _split_cookies(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    for pair in value.split(b";"):
        name, _, content = pair.strip(b" \t").partition(b"=")
        if name or content:
            yield name, content


def split_parameters(query: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the parameters of a query: the decoded name, the raw value, and the raw pair."""
    for pair in query.split(b"&") if query else ():
        name, _, value = pair.partition(b"=")
        yield unquote_to_bytes(name.replace(b"+", b" ")).decode("latin-1"), value, pair


def extract_placeholder(slot: Slot, value: bytes) -> bytes | None:
    """Return the placeholder in a value: alone, or in a header also after a scheme or as either side of `Basic`."""
    if slot[0] != "header":
        return value if PLACEHOLDER.fullmatch(value) else None
    if m := CARRIED.fullmatch(value):
        return m[1]
    sides = [side for side in parse_basic(value) if PLACEHOLDER.search(side)]
    return sides[0] if len(sides) == 1 and PLACEHOLDER.fullmatch(sides[0]) else None


def parse_basic(value: bytes) -> tuple[bytes, ...]:
    """Return user and password of a `Basic` value; empty for anything else."""
    if not (m := BASIC.fullmatch(value)):
        return ()
    try:
        user, _, password = base64.b64decode(m[1].translate(bytes.maketrans(b"-_", b"+/")) + b"==").partition(b":")
    except binascii.Error:
        return ()
    return user, password


def find_placeholders(value: bytes) -> list[bytes]:
    """Find placeholders in a value: as it is, percent-decoded, inside `Basic`."""
    texts = (value, *((unquote_to_bytes(value),) if b"%" in value else ()), *parse_basic(value.strip()))
    return [m[0] for text in texts if PREFIX in text for m in PLACEHOLDER.finditer(text)]


def is_withheld(folded: bytes) -> bool:
    """Return whether a header requests a partial or encoded response: `Range`, and its variants on some servers."""
    return folded in _WITHHELD or (b"range" in folded and folded not in UPLOADED)


def harden(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Request a response that can be scanned: whole, and not compressed."""
    filtered = [(name, value) for name, value in headers if not is_withheld(fold(name))]
    return [*filtered, (b"Accept-Encoding", b"identity")]


def format_header_name(name: str) -> bytes:
    return name.title().encode("latin-1")


def with_cookie(headers: Headers, name: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    pairs = [pair for header, sent in headers if fold(header) == b"cookie" for pair in _split_cookies(sent)]
    pairs = [*(pair for pair in pairs if pair[0] != name), (name, value)]
    others = [pair for pair in headers if fold(pair[0]) != b"cookie"]
    return [*others, (b"Cookie", b"; ".join(one + b"=" + content for one, content in pairs))]


def with_parameter(query: bytes, name: str, value: bytes) -> bytes:
    pairs = [(other, pair) for other, _, pair in split_parameters(query)]
    put = f"{quote(name, safe='')}={quote(value, safe='')}".encode()
    at = next((i for i, (other, _) in enumerate(pairs) if other == name), len(pairs))
    others = [pair for other, pair in pairs[at:] if other != name]
    return b"&".join([*(pair for _, pair in pairs[:at]), put, *others])
