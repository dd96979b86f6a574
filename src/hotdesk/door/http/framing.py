"""Strict HTTP/1.1 heads and bodies, without I/O: accepts only messages that every parser reads the same way."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

HEAD_LIMIT = 64 * 1024
"""Bytes of a head, including the empty line."""
LINE_LIMIT = 16 * 1024
"""Bytes of a head's first line."""
HEADERS = 128
"""Number of header fields in a head."""
TRAILER_LIMIT = 8 * 1024
"""Bytes of the trailer fields after the last chunk."""
LENGTH_DIGITS = 18
LAST = b"0\r\n\r\n"
"""The end of a chunked body."""

Version: TypeAlias = Literal["1.0", "1.1"]
Body: TypeAlias = int | Literal["chunked", "close"] | None
"""How a body ends: after so many bytes, by its last chunk, or with the connection (responses only). `None`: no body."""

NAME = rb"[!#-'*+.0-9A-Z^-z|~-]++"
SENT = rb"[\t -~]*+"
"""Value of a request field. ASCII only: some parsers read 0x85 as a line end and 0xa0 as a space."""
_ANSWERED = rb"[\t -~\x80-\xff]*+"
"""Value of a response field: servers do send file names in other charsets."""
_PADDED = rb"\r\n(%b):[ \t]*+(%b)(?=\r\n)"
"""A field with the line end before it. The pattern never backtracks: time is linear in the length of any input."""
PLAIN = rb"\r\n(%b):[ \t]*+(%b)(?<![ \t])(?=\r\n)"
"""The same without white space at its end, which is the usual case."""
_SENT_FIELDS = re.compile(PLAIN % (NAME, SENT)), re.compile(_PADDED % (NAME, SENT))
_ANSWERED_FIELDS = re.compile(PLAIN % (NAME, _ANSWERED)), re.compile(_PADDED % (NAME, _ANSWERED))
_REQUEST_LINE = re.compile(rb"(%b) ([!-~]++) HTTP/1\.([01])\r\n" % NAME)
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (%b))?\r\n" % _ANSWERED)
STRAY = re.compile(rb"[\0-\x08\n-\x1f\x7f](?<!\r\n)(?<!\r(?=\n|\Z))")
"""A line feed or carriage return without the other, or a control character. A final CR may still get its LF."""
CHUNK = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})\r\n")
"""The bytes between two chunks: the end of one, and the size of the next."""
_CHUNK_BEGUN = re.compile(rb"(?:\r(?:\n(?:[0-9A-Fa-f]{1,16}\r?)?)?)?")

MIMIC = re.compile(
    rb"(?i)\r\n(?:content%b(?:length|encoding|type)|transfer%bencoding|keep%balive|proxy%b[a-z])"
    % ((rb"[!#-'*+.^_`|~]++",) * 4)
)
"""A field that some servers read as one of ours: they take `_`, and a few take `.`, for `-`."""

FRAMING = frozenset((b"content-length", b"transfer-encoding", b"host"))
HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"))
KEPT = frozenset((b"content-length", b"host"))
"""Fields that `Connection` cannot remove: without them the request would be a different one."""


class HttpMessageError(Exception):
    """Invalid HTTP. `reason` is plain, short, and contains none of the received bytes.

    `status` is the response to the desk that sent it. An upstream's invalid message always becomes a 502.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


# -- fields ------------------------------------------------------------------------------------------------------


class Headers:
    """Header fields in their order, found by lower-case name. Immutable: changes return a new object."""

    __slots__ = ("_values", "pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.pairs = tuple(pairs)
        """Names as they are sent, and values without surrounding white space."""
        self._values = {name.lower(): value for name, value in self.pairs}
        """The last value of each lower-case name."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return ((name.lower(), value) for name, value in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Headers({[name for name, _ in self.pairs]})"

    def get(self, name: bytes) -> bytes | None:
        """Return a field's value, or `None`; the values of a repeated field are joined with commas."""
        value = self._values.get(name)
        if value is None or len(self._values) == len(self.pairs):
            return value
        return b", ".join(self.get_all(name))

    def get_all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self if key == name]

    def get_single(self, name: bytes) -> bytes | None:
        """Return the value of a field that a head may have only once."""
        value = self._values.get(name)
        if value is not None and len(self._values) != len(self.pairs) and len(self.get_all(name)) > 1:
            raise HttpMessageError(400, f"the header {name.decode()} is repeated")
        return value

    def get_list(self, name: bytes) -> list[bytes]:
        """Return the members of a list field, in lower case."""
        value = self.get(name)
        return [] if value is None else [member.strip(b" \t") for member in value.lower().split(b",")]

    def remove(self, names: Container[bytes]) -> Headers:
        return Headers([pair for pair in self.pairs if pair[0].lower() not in names])

    def add(self, name: bytes, value: bytes) -> Headers:
        return Headers((*self.pairs, (name, value)))


def end_to_end(headers: Headers, more: Container[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """Return the headers that are forwarded: without hop-by-hop headers and those that `Connection` names.

    `more` are lower-case names that are left out as well.
    """
    names = headers.get_list(b"connection")
    dropped = HOP.union(names) - KEPT if names else HOP
    return [
        pair
        for pair in headers.pairs
        if (name := pair[0].lower()) not in dropped and name[:6] != b"proxy-" and name not in more
    ]


def _parse_fields(head: bytes, fields: tuple[re.Pattern[bytes], ...]) -> Headers:
    """Parse the fields of a whole head: every line except the first and the empty last one."""
    count = head.count(b"\r\n") - 2
    if count > HEADERS:
        raise HttpMessageError(431, f"the head has more than {HEADERS} headers")
    # Each match begins with its own line end and reaches to the next, so if the counts agree, everything was read.
    plain, padded = fields
    pairs = plain.findall(head)
    if len(pairs) != count:
        pairs = [(name, value.rstrip(b" \t")) for name, value in padded.findall(head)]
    if len(pairs) != count or head[-4:] != b"\r\n\r\n":
        raise HttpMessageError(400, _diagnose_head(head))
    return Headers(pairs)


def _diagnose_head(head: bytes) -> str:
    lines = head.split(b"\r\n")
    if STRAY.search(head) or lines[-2:] != [b"", b""]:
        return "the head has a control character, or a line that does not end in CR LF"
    if any(line[:1] in (b" ", b"\t") for line in lines[1:]):
        return "a header is continued on a second line, which is not allowed"
    if any(b":" not in line for line in lines[1:-2]):
        return "a header line has no colon"
    return "a header's name or value has invalid characters"


# -- heads -------------------------------------------------------------------------------------------------------


class Request(NamedTuple):
    """A desk's request. Its body never ends by closing the connection."""

    method: str
    target: bytes
    headers: Headers
    body: Body
    keep_alive: bool
    """Whether another request may follow on this connection."""
    expects: bool
    """Whether the client waits for a 100 (Continue) before it sends the body."""
    upgrade: bytes
    """The requested protocols, in lower case; empty if none."""
    version: Version
    """A client that speaks HTTP/1.0 cannot read a chunked response."""


class Response(NamedTuple):
    """An upstream's response, and how its body ends."""

    status: int
    reason: bytes
    headers: Headers
    body: Body
    keep_alive: bool
    """Whether another response may follow on this connection."""
    version: Version


def find_end(buffer: bytes | bytearray, searched: int = 0) -> int:
    """Return the end of the head at the start of a buffer, or -1. `searched` bytes were searched before."""
    end = buffer.find(b"\r\n\r\n", max(searched - 3, 0), HEAD_LIMIT)
    if end >= 0:
        return end + 4
    if buffer[:1] in (b"\r", b"\n", b" ", b"\t"):
        raise HttpMessageError(400, "the message begins with white space")
    if STRAY.search(buffer, max(searched - 1, 0)):
        raise HttpMessageError(400, "the head has a control character, or a line that does not end in CR LF")
    if len(buffer) >= LINE_LIMIT and buffer.find(b"\r\n", 0, LINE_LIMIT) < 0:
        raise HttpMessageError(414, f"the first line (method and URL, or status) is longer than {LINE_LIMIT} bytes")
    if len(buffer) >= HEAD_LIMIT:
        raise HttpMessageError(431, f"the head is longer than {HEAD_LIMIT} bytes")
    return -1


def _match_first_line(head: bytes, form: re.Pattern[bytes]) -> re.Match[bytes] | None:
    if len(head) > HEAD_LIMIT:
        raise HttpMessageError(431, f"the head is longer than {HEAD_LIMIT} bytes")
    matched = form.match(head)
    if len(head) > LINE_LIMIT and head.find(b"\r\n", 0, LINE_LIMIT) < 0:
        raise HttpMessageError(414, f"the first line (method and URL, or status) is longer than {LINE_LIMIT} bytes")
    return matched


def parse_request(head: bytes) -> Request:
    matched = _match_first_line(head, _REQUEST_LINE)
    if matched is None:
        raise _diagnose_request(head)
    method, target, minor = matched.groups()
    version: Version = "1.1" if minor == b"1" else "1.0"
    headers = _parse_fields(head, _SENT_FIELDS)
    if MIMIC.search(head):
        raise HttpMessageError(
            400,
            "a header name has `_` or `.` where some servers read `-`, as in Content_Length; write `-`, or leave the "
            "header out",
        )
    if headers.get_single(b"host") is None and version == "1.1":
        raise HttpMessageError(400, "the request has no Host header")
    body = parse_framing(headers, version)
    if body and method == b"CONNECT":
        raise HttpMessageError(400, "a CONNECT request must not have a body")
    alive, upgrade = _read_persistence(headers, version)
    expects = b"expect" in headers._values and version == "1.1" and _check_expect(headers) and bool(body)
    return Request(method.decode(), target, headers, body, alive, expects, upgrade, version)


def _read_persistence(headers: Headers, version: Version) -> tuple[bool, bytes]:
    """Return whether the connection continues after a message, and the requested upgrade."""
    if version != "1.1":
        return False, b""
    if headers.get(b"connection") in (None, b"keep-alive", b"Keep-Alive"):
        return True, b""
    words = headers.get_list(b"connection")
    upgrade = headers.get(b"upgrade") if b"upgrade" in words else None
    return b"close" not in words, (upgrade or b"").lower()


def _diagnose_request(head: bytes) -> HttpMessageError:
    words = head[: head.find(b"\r\n")].split(b" ")
    if len(words) == 3 and words[2].startswith(b"HTTP/") and words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return HttpMessageError(505, "only HTTP/1.1 is supported, not HTTP/2 or other protocols")
    return HttpMessageError(400, "the first line is not like `GET /path HTTP/1.1`")


def parse_framing(headers: Headers, version: str) -> Body:
    if b"transfer-encoding" not in headers._values and b"content-length" not in headers._values:
        return None
    coding, length = headers.get_single(b"transfer-encoding"), headers.get_single(b"content-length")
    if coding is not None:
        if length is not None:
            raise HttpMessageError(400, "the message has both Content-Length and Transfer-Encoding")
        if version != "1.1":
            raise HttpMessageError(400, "HTTP/1.0 does not allow Transfer-Encoding")
        if coding.lower() != b"chunked":
            raise HttpMessageError(501, "the Transfer-Encoding is not supported; only chunked is")
        return "chunked"
    if length is None:
        return None
    if not length.isdigit():
        raise HttpMessageError(400, "the Content-Length is not a number")
    if len(length) > LENGTH_DIGITS:
        raise HttpMessageError(413, f"the Content-Length has more than {LENGTH_DIGITS} digits")
    return int(length)


def _check_expect(headers: Headers) -> bool:
    if headers.get_list(b"expect") != [b"100-continue"]:
        raise HttpMessageError(417, "the value of the header Expect is not supported; only 100-continue is")
    return True


def parse_response(head: bytes, method: str) -> Response:
    """Parse the head of a response, including its empty line, to a request of that method (not CONNECT)."""
    matched = _match_first_line(head, STATUS_LINE)
    if matched is None:
        raise HttpMessageError(400, "the first line is not an HTTP version and a status code")
    minor, code, reason = matched.groups(b"")
    headers, status = _parse_fields(head, _ANSWERED_FIELDS), int(code)
    version: Version = "1.1" if minor == b"1" else "1.0"
    body = parse_framing(headers, version)
    alive = _read_persistence(headers, version)[0] and status != 101
    if status < 200 or status == 204:
        # Bytes after a response that announces a body and cannot have one are ambiguous.
        return Response(status, reason, headers, None, alive and not body, version)
    if method == "HEAD" or status == 304:
        return Response(status, reason, headers, None, alive, version)
    if body is None:
        return Response(status, reason, headers, "close", False, version)
    return Response(status, reason, headers, body, alive, version)


# -- bodies ------------------------------------------------------------------------------------------------------


class BodyReader:
    """Extracts a body from the bytes of a connection."""

    __slots__ = ("_body", "_last", "_pending", "_remaining", "done")

    def __init__(self, body: Body) -> None:
        self.done = not body
        self._body = body
        self._remaining = body if isinstance(body, int) else 0
        """Bytes that remain of the body, or of the current chunk."""
        self._pending = b"\r\n"
        """Bytes between two chunks that are not parsed yet. It begins with the line end that the first chunk lacks."""
        self._last = False
        """Whether the last chunk was read, so that only trailer fields may follow."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Feed the next bytes; return those that belong to the body, and those after its end."""
        if self.done:
            return b"", data
        if self._body == "chunked":
            return self._unchunk(self._pending + data if self._pending else data)
        if self._body == "close" or len(data) < self._remaining:
            self._remaining -= len(data)
            return data, b""
        self.done = True
        return data[: self._remaining], data[self._remaining :]

    def feed_eof(self) -> None:
        """Handle the end of the connection: it completes a body of the kind `close`, and is an error for any other."""
        if not self.done and self._body != "close":
            raise HttpMessageError(400, "the connection ended before the end of the body")
        self.done = True

    def _unchunk(self, data: bytes) -> tuple[bytes, bytes]:
        at, end = self._remaining, len(data)
        parts = [data[:at]] if at else []
        while at < end and not self._last and (found := CHUNK.match(data, at)):
            begin = found.end()
            at = begin + int(found[1], 16)
            if at == begin:
                self._last = True
                at -= 2  # this line end may be the first half of the body's end
            else:
                parts.append(data[begin:at])
        self._remaining = max(at - end, 0)
        self._pending = data[at:]
        if self._last:
            return b"".join(parts), self._finish()
        if not _CHUNK_BEGUN.fullmatch(self._pending):
            raise HttpMessageError(400, "a chunk's size is not a hexadecimal number, or does not match its data")
        return b"".join(parts), b""

    def _finish(self) -> bytes:
        end = self._pending.find(b"\r\n\r\n", 0, TRAILER_LIMIT) + 4
        if end < 4:
            return self._wait()
        trailers = _parse_fields(self._pending[:end], _ANSWERED_FIELDS)
        if any(name in trailers for name in FRAMING):
            raise HttpMessageError(400, "a trailer must not be Content-Length, Transfer-Encoding or Host")
        self.done = True
        return self._pending[end:]

    def _wait(self) -> bytes:
        if STRAY.search(self._pending):
            raise HttpMessageError(400, "a trailer has a control character, or a line that does not end in CR LF")
        if len(self._pending) >= TRAILER_LIMIT:
            raise HttpMessageError(431, f"the trailers have more than {TRAILER_LIMIT} bytes")
        return b""


# -- writing -----------------------------------------------------------------------------------------------------


def request_head(method: str, target: bytes, headers: Headers) -> bytes:
    """Format the head of a request; raise unless `parse_request` reads the same from it."""
    head = _format_head(b"%b %b HTTP/1.1\r\n" % (method.encode(errors="replace"), target), headers)
    try:
        read = parse_request(head)
    except HttpMessageError as broken:
        raise HttpMessageError(500, f"the request cannot be sent: {broken.reason}") from None
    if (read.method, read.target, read.headers) != (method, target, headers):
        raise HttpMessageError(
            500,
            "the request was not sent, because servers could read its headers in two ways after the door's changes; "
            "send fewer or simpler headers",
        )
    return head


def format_response_head(status: int, reason: bytes, headers: Headers) -> bytes:
    """Format the head of a response; raise unless `parse_response` reads the same from it."""
    head = _format_head(b"HTTP/1.1 %d %b\r\n" % (status, reason), headers)
    try:
        read = parse_response(head, "GET")
    except HttpMessageError as broken:
        raise HttpMessageError(500, f"after the door's changes, {broken.reason}") from None
    if (read.status, read.reason, read.headers) != (status, reason, headers):
        raise HttpMessageError(500, "clients could read its headers in two ways")
    return head


def _format_head(first: bytes, headers: Headers) -> bytes:
    """Assemble a head; the caller validates it."""
    return b"".join((first, *[b"%b: %b\r\n" % (raw, value) for raw, value in headers.pairs], b"\r\n"))


def encode_chunk(data: bytes) -> bytes:
    """Encode bytes as one chunk; return nothing for no bytes, because an empty chunk would end the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
