"""Strict HTTP/1.1 heads and bodies, without I/O: accepts only messages that every parser reads the same way."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

HEAD_LIMIT = 64 * 1024
"""Bytes of a head, the empty line included."""
LINE_LIMIT = 16 * 1024
"""Bytes of a head's first line."""
HEADERS = 128
"""Fields of a head."""
TRAILER_LIMIT = 8 * 1024
"""Bytes of the fields after the last chunk."""
LENGTH_DIGITS = 18
LAST = b"0\r\n\r\n"
"""What ends a chunked body."""

Version: TypeAlias = Literal["1.0", "1.1"]
Body: TypeAlias = int | Literal["chunked", "close"] | None
"""How a body ends: after so many bytes, by its last chunk, with the connection (responses only); None: no body."""

NAME = rb"[!#-'*+.0-9A-Z^-z|~-]++"
SENT = rb"[\t -~]*+"
"""Text of a request. Nothing beyond ASCII: some readers take 0x85 for a line end and 0xa0 for a space."""
_ANSWERED = rb"[\t -~\x80-\xff]*+"
"""Text of an answer: servers do send names of files as they are."""
_PADDED = rb"\r\n(%b):[ \t]*+(%b)(?=\r\n)"
"""A field with the line end before it. Nothing is tried twice: time grows with the length, whatever is sent."""
PLAIN = rb"\r\n(%b):[ \t]*+(%b)(?<![ \t])(?=\r\n)"
"""The same without white space at its end, as nearly all are."""
_SENT_FIELDS = re.compile(PLAIN % (NAME, SENT)), re.compile(_PADDED % (NAME, SENT))
_ANSWERED_FIELDS = re.compile(PLAIN % (NAME, _ANSWERED)), re.compile(_PADDED % (NAME, _ANSWERED))
_REQUEST_LINE = re.compile(rb"(%b) ([!-~]++) HTTP/1\.([01])\r\n" % NAME)
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: (%b))?\r\n" % _ANSWERED)
STRAY = re.compile(rb"[\0-\x08\n-\x1f\x7f](?<!\r\n)(?<!\r(?=\n|\Z))")
"""A line feed or carriage return without the other, or a control character; a last carriage return may yet be right."""
CHUNK = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})\r\n")
"""What stands between two chunks: the end of one, the size of the next."""
_CHUNK_BEGUN = re.compile(rb"(?:\r(?:\n(?:[0-9A-Fa-f]{1,16}\r?)?)?)?")

MIMIC = re.compile(
    rb"(?i)\r\n(?:content%b(?:length|encoding|type)|transfer%bencoding|keep%balive|proxy%b[a-z])"
    % ((rb"[!#-'*+.^_`|~]++",) * 4)
)
"""A field that some servers read as one of ours: they take `_`, and a few take `.`, for `-`."""

FRAMING = frozenset((b"content-length", b"transfer-encoding", b"host"))
HOP = frozenset((b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"))
KEPT = frozenset((b"content-length", b"host"))
"""What a `Connection` field cannot name away: without them a request is another request."""


class HttpMessageError(Exception):
    """Invalid HTTP: `reason` is plain, short, and contains none of the received bytes.

    `status` is the answer to the desk that sent it. An upstream's invalid message is always answered with 502.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


# -- fields ------------------------------------------------------------------------------------------------------


class Headers:
    """Header fields in their order, found by lower-case name. Immutable: changes make new ones."""

    __slots__ = ("_values", "pairs")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self.pairs = tuple(pairs)
        """Names as they are sent, and values without white space around them."""
        self._values = {name.lower(): value for name, value in self.pairs}
        """The last value of each name."""

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
        """Return a field's value; of a repeated field all its values, joined as one list."""
        value = self._values.get(name)
        if value is None or len(self._values) == len(self.pairs):
            return value
        return b", ".join(self.get_all(name))

    def get_all(self, name: bytes) -> list[bytes]:
        return [value for key, value in self if key == name]

    def get_single(self, name: bytes) -> bytes | None:
        """Return the value of a field that may stand in a head once."""
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
    """Leave out what concerns one connection only, and what `Connection` says does; the length is its writer's.

    `more` is left out as well, by its names in lower case.
    """
    names = headers.get_list(b"connection")
    dropped = HOP.union(names) - KEPT if names else HOP
    return [
        pair
        for pair in headers.pairs
        if (name := pair[0].lower()) not in dropped and name[:6] != b"proxy-" and name not in more
    ]


def _parse_fields(head: bytes, fields: tuple[re.Pattern[bytes], ...]) -> Headers:
    """Read the fields of a whole head: every line but the first and the empty last one."""
    count = head.count(b"\r\n") - 2
    if count > HEADERS:
        raise HttpMessageError(431, f"the head has more than {HEADERS} headers")
    # Each match begins with a line end of its own and reaches to the next: as many as lines, and all was read.
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
    """A desk's request, and how its body ends: never by closing the connection."""

    method: str
    target: bytes
    headers: Headers
    body: Body
    keep_alive: bool
    """Whether another request may follow on this connection."""
    expects: bool
    """Whether its body waits for a 100 (Continue)."""
    upgrade: bytes
    """The protocols it would like to change to, in lower case; empty: none."""
    version: Version
    """Who speaks 1.0 cannot be answered in chunks."""


class Response(NamedTuple):
    """An upstream's response, and how its body ends."""

    status: int
    reason: bytes
    headers: Headers
    body: Body
    keep_alive: bool
    """Whether another answer may follow on this connection."""
    version: Version


def find_end(buffer: bytes | bytearray, searched: int = 0) -> int:
    """Return the end of the head at the start of a buffer, -1 if incomplete; `seen` bytes were searched before."""
    end = buffer.find(b"\r\n\r\n", max(searched - 3, 0), HEAD_LIMIT)
    if end >= 0:
        return end + 4
    if buffer[:1] in (b"\r", b"\n", b" ", b"\t"):
        raise HttpMessageError(400, "the message begins with white space")
    if STRAY.search(buffer, max(searched - 1, 0)):
        raise HttpMessageError(400, "the head has a control character, or a line that does not end in CR LF")
    if len(buffer) >= LINE_LIMIT and buffer.find(b"\r\n", 0, LINE_LIMIT) < 0:
        raise HttpMessageError(414, f"the first line is longer than {LINE_LIMIT} bytes")
    if len(buffer) >= HEAD_LIMIT:
        raise HttpMessageError(431, f"the head is longer than {HEAD_LIMIT} bytes")
    return -1


def _match_first_line(head: bytes, form: re.Pattern[bytes]) -> re.Match[bytes] | None:
    if len(head) > HEAD_LIMIT:
        raise HttpMessageError(431, f"the head is longer than {HEAD_LIMIT} bytes")
    matched = form.match(head)
    if len(head) > LINE_LIMIT and head.find(b"\r\n", 0, LINE_LIMIT) < 0:
        raise HttpMessageError(414, f"the first line is longer than {LINE_LIMIT} bytes")
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
    """Return whether a connection continues after a message, and the requested upgrade."""
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
    """Read the head of an answer to a request of that method (not CONNECT), its empty line included."""
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
    """Takes a body out of the bytes of a connection."""

    __slots__ = ("_body", "_last", "_pending", "_remaining", "done")

    def __init__(self, body: Body) -> None:
        self.done = not body
        self._body = body
        self._remaining = body if isinstance(body, int) else 0
        """Bytes until the end of the body, or of a chunk."""
        self._pending = b"\r\n"
        """The beginning of what stands between chunks, which the first one lacks."""
        self._last = False
        """Whether the last chunk was seen, and only fields may follow."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what of the next bytes is body, and what comes after its end."""
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
        """Take note of the connection's end: it ends a body, or breaks it."""
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
                at -= 2  # the line end that may be the first half of the body's end
            else:
                parts.append(data[begin:at])
        self._remaining = max(at - end, 0)
        self._pending = data[at:]
        if self._last:
            return b"".join(parts), self._finish()
        if not _CHUNK_BEGUN.fullmatch(self._pending):
            raise HttpMessageError(400, "the size of a chunk is not a hexadecimal number, or is wrong")
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
    """Write the head of a request, provided that `parse_request` reads the same from it."""
    head = _format_head(b"%b %b HTTP/1.1\r\n" % (method.encode(errors="replace"), target), headers)
    try:
        read = parse_request(head)
    except HttpMessageError as broken:
        raise HttpMessageError(500, f"the request cannot be sent: {broken.reason}") from None
    if (read.method, read.target, read.headers) != (method, target, headers):
        raise HttpMessageError(500, "the request is ambiguous: servers could read it in two ways")
    return head


def format_response_head(status: int, reason: bytes, headers: Headers) -> bytes:
    """Write the head of an answer, provided that `parse_response` reads the same from it."""
    head = _format_head(b"HTTP/1.1 %d %b\r\n" % (status, reason), headers)
    try:
        read = parse_response(head, "GET")
    except HttpMessageError as broken:
        raise HttpMessageError(500, f"the response cannot be sent: {broken.reason}") from None
    if (read.status, read.reason, read.headers) != (status, reason, headers):
        raise HttpMessageError(500, "the response is ambiguous: clients could read it in two ways")
    return head


def _format_head(first: bytes, headers: Headers) -> bytes:
    """Assemble a head; the caller checks it."""
    return b"".join((first, *[b"%b: %b\r\n" % (raw, value) for raw, value in headers.pairs], b"\r\n"))


def encode_chunk(data: bytes) -> bytes:
    """Write bytes as one chunk; none as nothing, because an empty chunk would be the last."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
