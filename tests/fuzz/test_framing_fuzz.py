"""Tests of HTTP framing with generated requests and answers: h11 accepts whatever ours accepts, and reads it the same.

Where ours is stricter, that is counted and fine. `one(seed, answers)` reproduces a failure from the seed it names.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

import h11
import pytest

from hotdesk.door.http.framing import (
    BodyReader,
    HttpMessageError,
    Request,
    Response,
    find_end,
    format_response_head,
    parse_request,
    parse_response,
    request_head,
)
from tests.fuzz.conftest import FIRST

PARTS = 10
REQUESTS = 100_000
"""Generated requests of one part; a million in all."""
RESPONSES = 20_000
ACCEPTED = 0.2
"""The share that ours must accept: a reader that refuses everything proves nothing."""
WIDE = 1 << 20

Parse: TypeAlias = Callable[[bytes], Request | Response]
Fields: TypeAlias = list[tuple[bytes, bytes]]


# -- generated messages -------------------------------------------------------------------------------------------

METHODS = b"GET GET HEAD POST POST PUT DELETE OPTIONS PATCH CONNECT get M-SEARCH X!".split()
BAD_METHODS = [b"G(T", b"", b"GET\0", b"\tGET", b"G\xc3T", b"GET:", b"\x16\x03\x01"]
TARGETS = b"/ /a /a?b=c&d=%20 * a.test:443 http://a.test/x /%00 // /a#b".split()
BAD_TARGETS = [b"/\xc3\xa9", b"", b"/a b", b"/\ta", b"/\0", b"/\x7f", b"/ HTTP/1.1\r\nX: y", b"/\r", b"/\n"]
VERSIONS = [*b"HTTP/1.0 HTTP/1.0 HTTP/2.0 HTTP/1.2 http/1.1 HTTP/1.10 HTTP/11 HTTP/0.9".split(), b"HTTP/1.1 ", b""]
NAMES = b"Accept User-Agent Cookie X-A x-a Authorization Te Trailer Keep-Alive Via !#$%&'*+-.^_`|~ Content-Type".split()
BAD_NAMES = [b"", b"A B", b"A ", b" A", b"\tA", b"A\t", b"A(", b"A\x00", b"A\x80", b'"A"', b"Content-Length ", b"\x0bA"]
VALUES = [b"", b"x", b"a b", b"a\tb", b"text/html; q=1", b":", b"a, b", b"'\"\\", b"a" * 300]
BAD_VALUES = [b"\xc3\xa9", b"x\x85y", b"\xa0", b"a\x00", b"a\x01b", b"\x7f", b"a\x0bb", b"a\x0c"]
BAD_VALUES += [b"a\r b", b"a\n b", b"a\r\n b", b"a\r\n\tb"]
SPECIAL = [
    *((b"Connection", value) for value in (b"close", b"keep-alive", b"Keep-Alive, Close", b"upgrade", b"x-a,,te")),
    *((b"Upgrade", value) for value in (b"websocket", b"")),
    *((b"Expect", value) for value in (b"100-continue", b"100-Continue", b"200-ok")),
    *((b"Host", value) for value in (b"b.test", b"")),
]
LENGTHS = [*b"+%d -%d 0%d %d,%d 0x%x %d; %d_0 %d.0 \xb2%d".split(), b"%d, %d", b" %d ", b"\x0b%d"]
CODINGS = b"chunked chunked Chunked CHUNKED xchunked identity gzip,chunked chunked,chunked chunked;q=1".split()
CODINGS += [b"", b"\x0bchunked", b"chunked\x00", b"chunked,", b",chunked", b"chunked identity", b"\xa0chunked"]
SIZES = [b"+%x", b"-%x", b"0x%x", b"%x;ext", b"%x;a=b", b"%x ", b" %x", b"0_%x", b"%x\t", b"00%x", b"0" * 15 + b"%x"]
SIZES += [b"0" * 17 + b"%x", b"%x\x00", b"%x\x0b", b"%x\r", b"f%x", b"%xg", b"%d", b"\xb2%x", b"", b"%X"]
ENDS = [b"\n", b"\r", b"", b"\r\r\n", b"\n\r", b"\r\n\r\n", b"  ", b"\r\n ", b"x\r\n", b"\0\r\n"]
TRAILERS = [b"A: b\r\n", b"A: b\r\nC: d \r\n", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"\n"]
TRAILERS += [b"A : b\r\n", b" A: b\r\n", b"A\r\n", b"A: b\n", b"A: b\r\n c\r\n", b"Host: a\r\n", b"A: \x00\r\n"]
TRAILERS += [b": b\r\n", b"A:\xff\r\n"]
TAILS = [b"", b"", b"\r\n", b"\n", b"0\r\n\r\n", b"x", b"HTTP/1.1 200 OK\r\n\r\n"]
TAILS += [b"GET /next HTTP/1.1\r\nHost: n\r\n\r\n"]
NOISE = [bytes([code]) for code in b"\r\n\0 \t:;,+0\x0b\x0c\x1f\x7f\x85\xa0\xff"]
NOISE += [b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\n ", b"Content-Length: 3\r\n", b"\r\nTransfer-Encoding: chunked"]
STATUSES = b"200 200 200 404 500 302 204 304 206 100 101 103 199 999".split()
BAD_STATUSES = [*b"099 000 20 2000 2x0 +20 0x20 2_0 \xb200".split(), b""]
REASONS = [b" OK", b" OK", b" ", b"", b" Not Found", b" \xc3\xa9", b" a\tb", b"  "]
BAD_REASONS = [b" \x00", b" \x01", b"\tOK", b" x\rb", b" x\nb", b"OK"]


def rarely(chance: Random, usual: bytes, strange: list[bytes], share: float = 0.02) -> bytes:
    return usual if chance.random() > share else chance.choice(strange)


def render_fields(chance: Random, fields: Fields) -> bytes:
    out = []
    for name, value in fields:
        name = rarely(chance, name, [name.upper(), name.lower(), name.title()], 0.1)
        name = rarely(chance, name, [name + b" ", b" " + name, name + b"\t", *BAD_NAMES], 0.004)
        value = rarely(chance, value, BAD_VALUES, 0.02)
        space = rarely(chance, b" ", [b"", b"  ", b"\t", b" \t "], 0.1)
        out.append(name + b":" + space + value + rarely(chance, b"", [b" ", b"\t"], 0.05) + line_end(chance))
    return b"".join(out)


def line_end(chance: Random) -> bytes:
    return rarely(chance, b"\r\n", ENDS, 0.003)


def chunked(chance: Random, body: bytes) -> bytes:
    """Cut a body into chunks, sometimes with malformed ones."""
    out, at = [], 0
    while at < len(body):
        size = chance.randrange(1, 40)
        part = body[at : at + size]
        out.append(chunk_size(chance, len(part)) + line_end(chance) + part + line_end(chance))
        at += size
    trailer = rarely(chance, b"", TRAILERS, 0.15)
    return b"".join(out) + chunk_size(chance, 0) + line_end(chance) + trailer + line_end(chance)


def chunk_size(chance: Random, size: int) -> bytes:
    form = rarely(chance, b"%x", SIZES, 0.02)
    return form % size if b"%" in form else form


def framing(chance: Random) -> tuple[Fields, bytes]:
    """Return the headers that announce a body, rarely in two ways at once, and the body."""
    body = chance.randbytes(chance.choice((0, 1, 3, 10, 60)))
    kind = chance.random()
    if kind < 0.3:
        return [], b""
    length = (b"Content-Length", b"%d" % len(body))
    if kind < 0.6:
        return [length], body
    fields, data = [(b"Transfer-Encoding", rarely(chance, b"chunked", CODINGS, 0.1))], chunked(chance, body)
    if kind < 0.94:
        return fields, data
    form = chance.choice(LENGTHS)
    trick = form % ((len(body),) * form.count(b"%"))
    other = (b"content-length", b"%d" % (len(body) + chance.randrange(2)))
    return chance.choice(
        (
            ([*fields, length], data),
            ([length, *fields], data),
            ([length, other], body),
            ([(b"Content-Length", trick)], body),
            (fields * 2, data),
            ([length, (b"Content-Length", trick)], body),
            ([(b"Content-Length", b"9" * chance.choice((17, 18, 19, 20, 21)))], body),
        )
    )


def spoil(chance: Random, data: bytes) -> bytes:
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(data) + 1)
        what = chance.randrange(8)
        if what < 3:
            data = data[:at] + chance.choice(NOISE) + data[at:]
        elif what == 3:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif what == 4:
            data = data[:at] + data[at + chance.randrange(1, 4) :]
        elif what == 5:
            data = data[:at] + data[max(at - chance.randrange(1, 30), 0) :]
        elif what == 6:
            data = data.replace(b"\r\n", chance.choice((b"\n", b"\r", b"\r\r\n")), chance.choice((1, 1, -1)))
        else:
            data = data[: chance.choice((at, -chance.randrange(1, 40)))]
    return data


def message(chance: Random, first: bytes, fields: Fields) -> bytes:
    framed, body = framing(chance)
    fields = [*fields, *framed]
    for _ in range(chance.choice((0, 1, 2, 4))):
        fields.append((chance.choice(NAMES), chance.choice(VALUES)))
    if chance.random() < 0.3:
        fields.append(chance.choice(SPECIAL))
    chance.shuffle(fields)
    data = rarely(chance, b"", [b"\r\n", b"\n", b" "], 0.005) + first + line_end(chance)
    data += render_fields(chance, fields) + line_end(chance) + body + chance.choice(TAILS)
    return spoil(chance, data) if chance.random() < 0.4 else data


def make_request(chance: Random) -> bytes:
    words = (
        rarely(chance, chance.choice(METHODS), BAD_METHODS),
        rarely(chance, chance.choice(TARGETS), BAD_TARGETS),
        rarely(chance, b"HTTP/1.1", VERSIONS, 0.1),
    )
    first = rarely(chance, b" ", [b"  ", b"\t", b""], 0.01).join(words)
    return message(chance, first, [(b"Host", b"a.test")] if chance.random() < 0.97 else [])


def make_response(chance: Random) -> bytes:
    status = rarely(chance, chance.choice(STATUSES), BAD_STATUSES)
    reason = rarely(chance, chance.choice(REASONS), BAD_REASONS)
    return message(chance, rarely(chance, b"HTTP/1.1", VERSIONS, 0.1) + b" " + status + reason, [])


# -- the two readers -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Reading:
    """The result of one reader for some bytes."""

    state: str = "head"
    """`head` or `body` (more bytes are needed), `done`, or `broken`."""
    head: tuple[object, ...] | None = None
    fields: Fields | None = None
    """Header fields, with names as sent."""
    body: bytes = b""
    end: int = 0
    """Offset of the next message."""
    alive: bool = False
    waits: bool = False
    refusal: HttpMessageError | None = None


def read_ours(pieces: Iterable[bytes], parse: Parse, closed: bool) -> Reading:
    reading = Reading()
    try:
        feed_ours(reading, pieces, parse, closed)
    except HttpMessageError as broken:
        reading.state, reading.refusal = "broken", broken
    return reading


def feed_ours(reading: Reading, pieces: Iterable[bytes], parse: Parse, closed: bool) -> None:
    buffer, seen, fed = b"", 0, 0
    reader: BodyReader | None = None
    for piece in pieces:
        fed += len(piece)
        if reader is None:
            buffer += piece
            end = find_end(buffer, seen)
            seen = len(buffer)
            if end < 0:
                continue
            head = parse(buffer[:end])
            take_head(reading, head)
            reader, piece = BodyReader(head.body), buffer[end:]
            reading.state = "body"
        body, rest = reader.feed(piece)
        reading.body += body
        if reader.done:
            reading.state, reading.end = "done", fed - len(rest)
            return
    if closed and reader is not None:
        reader.feed_eof()
        reading.state, reading.end = "done", fed


def take_head(reading: Reading, head: Request | Response) -> None:
    reading.fields = [normal(*pair) for pair in head.headers.pairs]
    reading.alive = head.keep_alive
    if isinstance(head, Request):
        reading.head = (head.method.encode(), head.target, head.version.encode())
        reading.waits = head.expects
    else:
        reading.head = (head.status, head.reason, head.version.encode())


def normal(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Change a field as h11 does; there is only one that it changes."""
    return name, value.lower() if name.lower() == b"transfer-encoding" else value


def read_theirs(data: bytes, method: bytes | None, closed: bool) -> Reading:
    """Read with h11: a request, or the answer to a request with `method`."""
    link = h11.Connection(h11.SERVER if method is None else h11.CLIENT, max_incomplete_event_size=WIDE)
    if method is not None:
        link.send(h11.Request(method=method, target=b"/", headers=[(b"Host", b"a.test"), (b"Upgrade", b"x")]))
        link.send(h11.EndOfMessage())
    link.receive_data(data)
    if closed:
        link.receive_data(b"")
    reading = Reading()
    try:
        follow(reading, link, len(data))
    except h11.RemoteProtocolError:
        reading.state = "broken"
    return reading


def follow(reading: Reading, link: h11.Connection, size: int) -> None:
    while True:
        event = link.next_event()
        if isinstance(event, h11.Data):
            reading.body += bytes(event.data)
        elif isinstance(event, h11.Request):
            reading.head = (event.method, event.target, event.http_version)
            reading.waits = link.they_are_waiting_for_100_continue
        elif isinstance(event, h11.Response | h11.InformationalResponse):
            reading.head = (event.status_code, event.reason, event.http_version)
        if isinstance(event, h11.Request | h11.Response | h11.InformationalResponse):
            reading.state, reading.fields = (
                "body",
                [(bytes(name), bytes(value)) for name, value in event.headers.raw_items()],
            )
        if isinstance(event, h11.EndOfMessage | h11.InformationalResponse):
            reading.state, reading.end = "done", size - len(link.trailing_data[0])
            reading.alive = link.their_state is not h11.MUST_CLOSE
            return
        if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return


# -- properties ----------------------------------------------------------------------------------------------------


def agree(ours: Reading, theirs: Reading) -> None:
    """Fail if ours accepts what h11 refuses, or reads it differently."""
    if ours.refusal is not None:
        assert 400 <= ours.refusal.status < 600
        assert ours.refusal.reason.isascii()
        assert ours.refusal.reason.isprintable()
    if ours.head is None:
        assert ours.state == "broken" or theirs.state in ("head", "broken")
        return
    assert (ours.head, ours.fields) == (theirs.head, theirs.fields)
    assert theirs.body.startswith(ours.body)
    assert theirs.waits or not ours.waits
    if ours.state == "done":
        assert (theirs.state, theirs.body, theirs.end) == ("done", ours.body, ours.end)
        assert theirs.alive or not ours.alive
    elif ours.state == "body":
        assert (theirs.state, theirs.body) == ("body", ours.body)


def same(whole: Reading, split: Reading) -> None:
    """Fail if the result depends on how the bytes were split."""
    assert (whole.state, whole.head, whole.fields) == (split.state, split.head, split.fields)
    assert whole.state == "broken" or (whole.body, whole.end) == (split.body, split.end)


def split(chance: Random, data: bytes) -> list[bytes]:
    """Split bytes at random: anywhere, or after every byte."""
    if chance.random() < 0.1:
        return [data[at : at + 1] for at in range(len(data))]
    at = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 7)))
    return [data[begin:end] for begin, end in zip([0, *at], [*at, len(data)], strict=True)]


def check(data: bytes, chance: Random, method: str | None) -> Reading:
    """Read bytes in every way; return our result."""
    closed = method is not None and chance.random() < 0.5
    parse: Parse = parse_request if method is None else lambda head: parse_response(head, method)
    ours = read_ours([data], parse, closed)
    theirs = read_theirs(data, method.encode() if method else None, closed)
    agree(ours, theirs)
    pieces = read_ours(split(chance, data), parse, closed)
    same(ours, pieces)
    agree(pieces, theirs)
    write_back(data, parse, ours)
    return ours


def write_back(data: bytes, parse: Parse, ours: Reading) -> None:
    if ours.head is None or ours.head[2] == b"1.0":
        return
    head = parse(data[: find_end(data)])
    if isinstance(head, Request):
        assert parse(request_head(head.method, head.target, head.headers)) == head
    else:
        assert parse(format_response_head(head.status, head.reason, head.headers)) == head


def one(seed: int, answers: bool) -> Reading:
    chance = Random(seed)
    data = make_response(chance) if answers else make_request(chance)
    method = chance.choice(("GET", "GET", "POST", "HEAD")) if answers else None
    try:
        return check(data, chance, method)
    except Exception as error:
        raise AssertionError(f"seed {seed}, {method or 'request'}: {data!r}") from error


def campaign(first: int, count: int, answers: bool = False) -> Counter[str]:
    """Check many cases; count our results."""
    return Counter(one(seed, answers).state for seed in range(first, first + count))


def test_strict_readings_are_distinguished() -> None:
    took = Reading("done", (b"GET", b"/", b"1.1"), [(b"Host", b"a")], b"x", 9, True)
    for other in (
        Reading("broken"),
        Reading("body", took.head, took.fields, b"x"),
        Reading("done", (b"GET", b"/b", b"1.1"), took.fields, b"x", 9, True),
        Reading("done", took.head, [(b"Host", b"b")], b"x", 9, True),
        Reading("done", took.head, took.fields, b"y", 9, True),
        Reading("done", took.head, took.fields, b"x", 8, True),
        Reading("done", took.head, took.fields, b"x", 9, False),
    ):
        with pytest.raises(AssertionError):
            agree(took, other)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_byte_of_a_request_gets_through_that_h11_reads_otherwise(part: int) -> None:
    report("requests", part, REQUESTS, False)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_byte_of_an_answer_gets_through_that_h11_reads_otherwise(part: int) -> None:
    report("answers", part, RESPONSES, True)


def report(what: str, part: int, count: int, answers: bool) -> None:
    begun = time.monotonic()
    first = (FIRST or time.time_ns() // 1000 % 10**9) + part * count
    print(f"\n{what}: first seed {first}")
    states = campaign(first, count, answers)
    print(f"{what}: {dict(states)} in {time.monotonic() - begun:.0f} s")
    assert states["done"] >= ACCEPTED * count
    assert states["broken"] >= ACCEPTED * count
