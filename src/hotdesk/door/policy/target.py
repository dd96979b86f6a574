"""Parse a request into one canonical target, which is both judged and sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from hotdesk.brief.data import Scheme
from hotdesk.brief.names import bracket_ipv6, split_authority
from hotdesk.brief.paths import canonicalize_path, check_query
from hotdesk.brief.rules import METHOD_SHAPE, NEVER, PORTS
from hotdesk.dataclass import dataclass

LONGEST = 16384
_ABSOLUTE_SHAPE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
OVERRIDES = frozenset(
    """
    x-http-method-override x-method-override x-http-method x-original-url x-rewrite-url x-original-uri x-override-url
    x-original-host x-host x-http-host-override x-http-destinationurl x-proxy-url x-arbitrary request-uri
    forwarded x-forwarded x-forwarded-by x-forwarded-for x-forwarded-host x-forwarded-path x-forwarded-port
    x-forwarded-prefix x-forwarded-proto x-forwarded-scheme x-forwarded-server x-forwarded-ssl x-forwarded-uri
    x-real-ip x-client-ip x-cluster-client-ip true-client-ip cf-connecting-ip client-ip via
    """.split()
)
"""Headers that would give a request another meaning than its first line has: removed before it is sent.

All `X-Forwarded-*` are removed: no desk is behind a proxy of its own, and servers use these headers to decide where a
request came from, which host it is for, and under which path. Compared in lower case, with `_` read as `-`.
"""


class UnclearTargetError(Exception):
    """A request that can be read in two ways, or in none; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Authority:
    """The host and port a connection was opened for."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Target:
    """The canonical target of a request."""

    scheme: Scheme
    host: str
    """A name in lower-case ASCII, or an address without brackets."""
    port: int
    method: str
    path: str
    query: str = ""
    """Without the question mark; an empty query counts as none."""

    def encode_target(self) -> bytes:
        return (f"{self.path}?{self.query}" if self.query else self.path).encode("ascii")

    @property
    def authority(self) -> str:
        return bracket_ipv6(self.host) + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read(
    method: str | bytes,
    line: str | bytes,
    hosts: Sequence[str | bytes],
    inside: Authority | None = None,
    scheme: Scheme = "https",
) -> Target:
    """Parse a request: its method, the target of its first line, and its Host headers.

    `inside` is the authority of the CONNECT it came through, and `scheme` the protocol inside. Without a CONNECT, the
    request was sent to a proxy: it names its host itself, and its scheme is http.
    """
    verb, text, named = _check_method(method), check_ascii("target", line), parse_single_host(hosts)
    if inside is None:
        scheme = "http"
        authority, rest = split_absolute(text, scheme)
    elif text.startswith("/"):
        authority, rest = inside, text
    else:
        authority, rest = split_absolute(text, scheme, inside)
    if named != (authority.host, authority.port) and named != (authority.host, _omit_default_port(authority, scheme)):
        raise UnclearTargetError("the Host header does not match the host of the request")
    if inside not in (None, authority):
        raise UnclearTargetError("the host of the request does not match the host of the CONNECT")
    path, mark, query = rest.partition("?")
    return Target(
        scheme, authority.host, authority.port, verb, clear("path", path or "/"), clear("query", query) if mark else ""
    )


def connect(line: str | bytes) -> Authority:
    """Parse the target of a CONNECT, `host:port`; the port is required."""
    host, port = _parse_authority(check_ascii("target", line))
    if port is None:
        raise UnclearTargetError("CONNECT needs a port, as in example.test:443")
    return Authority(host, port)


@lru_cache(maxsize=1024)
def is_override(header: str) -> bool:
    """Return whether a header would change what a request means, and must not be sent."""
    folded = header.lower().replace("_", "-")
    return folded in OVERRIDES or folded.startswith("x-forwarded-")


def _check_method(method: str | bytes) -> str:
    name = check_ascii("method", method)
    if not METHOD_SHAPE.fullmatch(name):
        raise UnclearTargetError("the method must be a word in capital letters")
    if name in NEVER:
        raise UnclearTargetError(f"the method {name} is never admitted")
    return name


def parse_single_host(hosts: Sequence[str | bytes]) -> tuple[str, int | None]:
    if len(hosts) != 1:
        raise UnclearTargetError(f"the request has {len(hosts)} Host headers; exactly one is needed")
    return _parse_authority(check_ascii("Host header", hosts[0]))


def split_absolute(text: str, scheme: Scheme, inside: Authority | None = None) -> tuple[Authority, str]:
    """Split `http://host:port/path` into authority and target; `inside` is the authority of the CONNECT it is in."""
    found = _ABSOLUTE_SHAPE.fullmatch(text)
    if not found:
        raise UnclearTargetError(
            "the request line must be `GET http://HOST/PATH HTTP/1.1` when it is sent to the proxy itself, or "
            "`GET /PATH HTTP/1.1` inside a CONNECT"
        )
    if found[1].lower() != scheme:
        if inside is None:
            raise UnclearTargetError("without CONNECT the door accepts only http:// requests; use CONNECT for https")
        raise UnclearTargetError(
            f"the request line has an {found[1].lower()}:// URL, but this connection is for {scheme}; send `GET /path` "
            f"or `GET {scheme}://{bracket_ipv6(inside.host)}/path`"
        )
    host, port = _parse_authority(found[2])
    return Authority(host, PORTS[scheme] if port is None else port), found[3]


def _parse_authority(text: str) -> tuple[str, int | None]:
    try:
        return split_authority(text)
    except ValueError as e:
        raise UnclearTargetError(f"the host {e}") from None


def _omit_default_port(authority: Authority, scheme: Scheme) -> int | None:
    """Return the port that a Host header must have: `None` if it is the scheme's default and may be omitted."""
    return None if authority.port == PORTS[scheme] else authority.port


def clear(what: str, text: str) -> str:
    try:
        return canonicalize_path(text) if what == "path" else check_query(text)
    except ValueError as e:
        raise UnclearTargetError(f"the {what} {e}") from None


def check_ascii(what: str, text: str | bytes) -> str:
    try:
        decoded = text.decode("ascii") if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        decoded = "\x80"
    if not decoded.isascii():
        raise UnclearTargetError(f"the {what} is not plain ASCII")
    if len(decoded) > LONGEST:
        raise UnclearTargetError(f"the {what} is longer than {LONGEST} bytes")
    return decoded
