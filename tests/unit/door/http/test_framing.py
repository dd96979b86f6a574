"""Tests of HTTP/1.1 framing, as tables: what is accepted and how it is parsed, what is refused with which status."""

from __future__ import annotations

import pytest
from tests.fuzz.test_framing_fuzz import ACCEPTED, campaign

from hotdesk.door.http.framing import (
    HEAD_LIMIT,
    HEADERS,
    LAST,
    LINE_LIMIT,
    TRAILER_LIMIT,
    Body,
    BodyReader,
    Headers,
    HttpMessageError,
    encode_chunk,
    end_to_end,
    find_end,
    format_response_head,
    parse_request,
    parse_response,
    request_head,
)

CASES = 20_000
HOST = b"Host: a.test\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(fields: bytes, version: bytes = b"1.1") -> bytes:
    return b"POST /a HTTP/" + version + b"\r\n" + HOST + fields + b"\r\n"


def answer(fields: bytes, first: bytes = b"HTTP/1.1 200 OK") -> bytes:
    return first + b"\r\n" + fields + b"\r\n"


# -- requests ----------------------------------------------------------------------------------------------------

BODIES: list[tuple[bytes, Body]] = [
    (b"", None),
    (b"Content-Length: 0\r\n", 0),
    (b"Content-Length: 5\r\n", 5),
    (b"content-length:\t 005 \t\r\n", 5),
    (b"Content-Length: " + b"9" * 18 + b"\r\n", 10**18 - 1),
    (CHUNKED, "chunked"),
    (b"TRANSFER-ENCODING:Chunked\r\n", "chunked"),
]

REFUSED: dict[str, tuple[bytes, int]] = {
    "length and chunks": (post(b"Content-Length: 5\r\n" + CHUNKED), 400),
    "chunks and length": (post(CHUNKED + b"Content-Length: 5\r\n"), 400),
    "two lengths": (post(b"Content-Length: 5\r\nContent-Length: 6\r\n"), 400),
    "one length twice": (post(b"Content-Length: 5\r\ncontent-length: 5\r\n"), 400),
    "a list of lengths": (post(b"Content-Length: 5, 5\r\n"), 400),
    "a signed length": (post(b"Content-Length: +5\r\n"), 400),
    "a negative length": (post(b"Content-Length: -5\r\n"), 400),
    "an empty length": (post(b"Content-Length:\r\n"), 400),
    "a length with an underscore": (post(b"Content-Length: 1_0\r\n"), 400),
    "a length in other digits": (post(b"Content-Length: \xb2\r\n"), 400),
    "a length beyond reason": (post(b"Content-Length: " + b"9" * 19 + b"\r\n"), 413),
    "chunks twice": (post(CHUNKED + CHUNKED), 400),
    "a coding nobody knows": (post(b"Transfer-Encoding: xchunked\r\n"), 501),
    "a coding and chunks": (post(b"Transfer-Encoding: gzip, chunked\r\n"), 501),
    "chunks in chunks": (post(b"Transfer-Encoding: chunked, chunked\r\n"), 501),
    "an empty coding": (post(b"Transfer-Encoding:\r\n"), 501),
    "chunks in HTTP/1.0": (post(CHUNKED, b"1.0"), 400),
    "a space before the colon": (post(b"X : y\r\n"), 400),
    "a tab before the colon": (post(b"Transfer-Encoding\t: chunked\r\n"), 400),
    "a folded header": (post(b"X: y\r\n z\r\n"), 400),
    "a header folded by a tab": (post(b"X: y\r\n\tz\r\n"), 400),
    "a first header that is folded": (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    "a line of white space": (post(b" \r\n"), 400),
    "a line without a colon": (post(b"X\r\n"), 400),
    "a name without letters": (post(b": y\r\n"), 400),
    "a name with a bracket": (post(b"X(: y\r\n"), 400),
    "a name beyond ASCII": (post(b"X\xe9: y\r\n"), 400),
    "a bare line feed": (post(b"X: y\nZ: z\r\n"), 400),
    "only line feeds": (b"GET / HTTP/1.1\nHost: a\n\r\n\r\n", 400),
    "a bare carriage return": (post(b"X: y\rZ: z\r\n"), 400),
    "two carriage returns": (post(b"X: y\r\r\n"), 400),
    "a zero byte": (post(b"X: y\0\r\n"), 400),
    "a control character": (post(b"X: y\x01\r\n"), 400),
    "a vertical tab": (post(b"Transfer-Encoding: \x0bchunked\r\n"), 400),
    "a delete": (post(b"X: \x7f\r\n"), 400),
    "a value beyond ASCII": (post(b"X: \xc3\xa9\r\n"), 400),
    "a line end some see": (post(b"X: y\x85Z: z\r\n"), 400),
    "a space some see": (post(b"Transfer-Encoding: \xa0chunked\r\n"), 400),
    "no host": (b"GET / HTTP/1.1\r\nX: y\r\n\r\n", 400),
    "two hosts": (post(HOST), 400),
    "two hosts in HTTP/1.0": (post(HOST, b"1.0"), 400),
    "a connection with a body": (b"CONNECT a.test:443 HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\n", 400),
    "a connection in chunks": (b"CONNECT a.test:443 HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n", 400),
    "an expectation nobody knows": (post(b"Expect: 200-ok\r\n"), 417),
    "two expectations": (post(b"Expect: 100-continue\r\nExpect: 100-continue\r\n"), 417),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 505),
    "HTTP/1.2": (post(b"", b"1.2"), 505),
    "HTTP/1.10": (post(b"", b"1.10"), 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "http in lower case": (b"GET / http/1.1\r\n" + HOST + b"\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a tab for a space": (b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a space at the end of the line": (b"GET / HTTP/1.1 \r\n" + HOST + b"\r\n", 400),
    "a space in a target": (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a tab in a target": (b"GET /a\tb HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a delete in a target": (b"GET /\x7f HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a target beyond ASCII": (b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no target": (b"GET HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a method that is no word": (b"G(T / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no method": (b" / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "an empty line before it": (b"\r\nGET / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "nothing but an empty line": (b"\r\n\r\n", 400),
    "a head within a head": (post(b"") + post(b""), 400),
    "half a head": (post(b"")[:-2], 400),
    "a head and more": (post(b"") + b"x", 400),
    "nothing": (b"", 400),
    "too many headers": (post(b"X: y\r\n" * HEADERS), 431),
    "too long a first line": (b"GET /" + b"a" * LINE_LIMIT + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "too long a head": (post(b"X: " + b"y" * HEAD_LIMIT + b"\r\n"), 431),
}


@pytest.mark.parametrize(("fields", "body"), BODIES)
def test_a_request_says_how_its_body_ends(fields: bytes, body: Body) -> None:
    assert parse_request(post(fields)).body == body


@pytest.mark.parametrize(("head", "status"), REFUSED.values(), ids=REFUSED)
def test_a_broken_request_is_refused_with_a_status_and_a_plain_reason(head: bytes, status: int) -> None:
    with pytest.raises(HttpMessageError) as caught:
        parse_request(head)
    assert caught.value.status == status
    assert caught.value.reason.isascii()
    assert caught.value.reason.isprintable()
    assert str(caught.value) == caught.value.reason


def test_a_request_is_read_as_it_was_sent() -> None:
    read = parse_request(b"M-SEARCH http://a.test/%2e?q HTTP/1.1\r\nHOST:a.test\r\nX-A: \t one\ttwo \t\r\nx-a:\r\n\r\n")
    assert (read.method, read.target, read.version) == ("M-SEARCH", b"http://a.test/%2e?q", "1.1")
    assert read.headers.pairs == ((b"HOST", b"a.test"), (b"X-A", b"one\ttwo"), (b"x-a", b""))
    assert list(read.headers) == [(b"host", b"a.test"), (b"x-a", b"one\ttwo"), (b"x-a", b"")]


KEPT_ALIVE: list[tuple[bytes, bytes, bool]] = [
    (b"1.1", b"", True),
    (b"1.1", b"Connection: keep-alive\r\n", True),
    (b"1.1", b"Connection: close\r\n", False),
    (b"1.1", b"Connection: Keep-Alive, CLOSE\r\n", False),
    (b"1.1", b"Connection: te\r\nConnection: close\r\n", False),
    (b"1.1", b"Connection: closed\r\n", True),
    (b"1.0", b"", False),
    (b"1.0", b"Connection: keep-alive\r\n", False),
]


@pytest.mark.parametrize(("version", "fields", "alive"), KEPT_ALIVE)
def test_a_connection_stays_open_only_if_both_sides_want_that(version: bytes, fields: bytes, alive: bool) -> None:
    length = b"Content-Length: 0\r\n"
    assert parse_request(post(fields + length, version)).keep_alive is alive
    assert parse_response(answer(fields + length, b"HTTP/%b 200 OK" % version), "GET").keep_alive is alive


EXPECTS: list[tuple[bytes, bool]] = [
    (post(b"Expect: 100-continue\r\nContent-Length: 5\r\n"), True),
    (post(b"EXPECT: 100-Continue\r\n" + CHUNKED), True),
    (post(b"Content-Length: 5\r\n"), False),
    (post(b"Expect: 100-continue\r\n"), False),
    (post(b"Expect: 100-continue\r\nContent-Length: 0\r\n"), False),
    (post(b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"1.0"), False),
]


@pytest.mark.parametrize(("head", "expects"), EXPECTS)
def test_only_a_body_waits_to_be_called(head: bytes, expects: bool) -> None:
    assert parse_request(head).expects is expects


UPGRADES: list[tuple[bytes, bytes]] = [
    (b"Connection: Upgrade\r\nUpgrade: WebSocket\r\n", b"websocket"),
    (b"Connection: keep-alive, upgrade\r\nUpgrade: h2c\r\n", b"h2c"),
    (b"Upgrade: websocket\r\n", b""),
    (b"Connection: te\r\nUpgrade: websocket\r\n", b""),
    (b"Connection: upgrade\r\n", b""),
]


@pytest.mark.parametrize(("fields", "upgrade"), UPGRADES)
def test_an_upgrade_counts_if_the_connection_says_so(fields: bytes, upgrade: bytes) -> None:
    assert parse_request(post(fields)).upgrade == upgrade
    assert parse_request(post(fields, b"1.0")).upgrade == b""


# -- answers -----------------------------------------------------------------------------------------------------

LENGTH = b"Content-Length: 5\r\n"
ANSWERS: list[tuple[str, str, bytes, Body, bool]] = [
    ("200 OK", "GET", LENGTH, 5, True),
    ("200 OK", "GET", CHUNKED, "chunked", True),
    ("200 OK", "GET", b"", "close", False),
    ("200", "GET", LENGTH, 5, True),
    ("999 ", "GET", LENGTH, 5, True),
    ("200 OK", "HEAD", LENGTH, None, True),
    ("200 OK", "HEAD", CHUNKED, None, True),
    ("200 OK", "HEAD", b"", None, True),
    ("304 Not Modified", "GET", LENGTH, None, True),
    ("204 No Content", "GET", b"", None, True),
    ("204 No Content", "GET", b"Content-Length: 0\r\n", None, True),
    ("204 No Content", "GET", LENGTH, None, False),
    ("204 No Content", "GET", CHUNKED, None, False),
    ("100 Continue", "POST", b"", None, True),
    ("103 Early Hints", "GET", LENGTH, None, False),
    ("101 Switching Protocols", "GET", b"Upgrade: websocket\r\nConnection: upgrade\r\n", None, False),
]


@pytest.mark.parametrize(("first", "method", "fields", "body", "alive"), ANSWERS)
def test_an_answer_says_how_its_body_ends(first: str, method: str, fields: bytes, body: Body, alive: bool) -> None:
    read = parse_response(answer(fields, b"HTTP/1.1 " + first.encode()), method)
    code, _, reason = first.partition(" ")
    assert (read.status, read.reason, read.body, read.keep_alive) == (int(code), reason.encode(), body, alive)


BROKEN_ANSWERS: dict[str, bytes] = {
    "length and chunks": answer(LENGTH + CHUNKED),
    "one length twice": answer(LENGTH * 2),
    "chunks twice": answer(CHUNKED * 2),
    "a coding nobody knows": answer(b"Transfer-Encoding: identity\r\n"),
    "chunks in HTTP/1.0": answer(CHUNKED, b"HTTP/1.0 200 OK"),
    "a folded header": answer(b"X: y\r\n z\r\n"),
    "a bare line feed": answer(b"X: y\nSet-Cookie: z\r\n"),
    "a zero byte": answer(b"X: \0\r\n"),
    "a control character": answer(b"X: \x01\r\n"),
    "a control character in its reason": answer(b"", b"HTTP/1.1 200 O\x1bK"),
    "a carriage return in its reason": answer(b"", b"HTTP/1.1 200 O\rK"),
    "a status of two digits": answer(b"", b"HTTP/1.1 20 OK"),
    "a status of four digits": answer(b"", b"HTTP/1.1 2000 OK"),
    "a status below all": answer(b"", b"HTTP/1.1 099 OK"),
    "a tab after its status": answer(b"", b"HTTP/1.1 200\tOK"),
    "HTTP/2": answer(b"", b"HTTP/2 200"),
    "a request": post(b""),
    "too many headers": answer(b"X: y\r\n" * (HEADERS + 1)),
    "too long a reason": answer(b"", b"HTTP/1.1 200 " + b"x" * LINE_LIMIT),
    "no status at all": answer(b"", b"HTTP/1.1"),
    "length and chunks though it has no body": answer(LENGTH + CHUNKED, b"HTTP/1.1 304 Not Modified"),
}


@pytest.mark.parametrize("head", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
def test_a_broken_answer_is_refused(head: bytes) -> None:
    with pytest.raises(HttpMessageError):
        parse_response(head, "GET")


def test_an_answer_may_hold_text_beyond_ascii() -> None:
    read = parse_response(answer(b"X: caf\xe9\r\n", b"HTTP/1.1 200 \xc3\xa9"), "GET")
    assert (read.reason, read.headers.get(b"x")) == (b"\xc3\xa9", b"caf\xe9")


# -- where a head ends -------------------------------------------------------------------------------------------


def test_a_heads_end_is_found_in_any_pieces() -> None:
    head = post(LENGTH)
    data = head + b"hello"
    assert find_end(data) == find_end(bytearray(data), len(head) - 1) == len(head)
    assert [find_end(data[:seen], max(seen - 1, 0)) for seen in range(len(head))] == [-1] * len(head)


EARLY: dict[str, tuple[bytes, int]] = {
    "a line feed first": (b"\n", 400),
    "a line end first": (b"\r", 400),
    "a space first": (b" ", 400),
    "the first byte of TLS": (b"\x16", 400),
    "a bare line feed": (b"GET / HTTP/1.1\n", 400),
    "a bare carriage return": (b"GET / HTTP/1.1\rX", 400),
    "a zero byte": (b"GET /\0", 400),
    "a long first line": (b"GET /" + b"a" * LINE_LIMIT, 414),
    "a long head": (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_LIMIT, 431),
}


@pytest.mark.parametrize(("data", "status"), EARLY.values(), ids=EARLY)
def test_a_head_that_cannot_become_right_is_refused_before_it_ends(data: bytes, status: int) -> None:
    for seen in (0, len(data) - 1):
        with pytest.raises(HttpMessageError) as caught:
            find_end(data, seen)
        assert caught.value.status == status


def test_the_limits_are_reached_and_not_passed() -> None:
    line = b"GET /" + b"a" * (LINE_LIMIT - 16) + b" HTTP/1.1\r\n"
    assert len(line) == LINE_LIMIT
    head = line + HOST + b"X:y\r\n" * (HEADERS - 2)
    head += b"Z:" + b"z" * (HEAD_LIMIT - len(head) - 6) + b"\r\n\r\n"
    assert find_end(head) == find_end(head + b"more") == len(head) == HEAD_LIMIT
    assert len(parse_request(head).headers) == HEADERS
    longer = head[:-4] + b"z\r\n\r\n"
    with pytest.raises(HttpMessageError):
        find_end(longer)
    with pytest.raises(HttpMessageError):
        find_end(longer[:HEAD_LIMIT])


ENDLESS = HEAD_LIMIT - 100
COSTLY: list[bytes] = [
    b"X:" + b" " * ENDLESS + b"\0",
    b"X:" + b" \t" * (ENDLESS // 2) + b"\x01",
    b"X:" + b"a " * (ENDLESS // 2) + b"\n",
    b"X: " + b"a" * ENDLESS + b"\x7f",
    b"a" * ENDLESS,
    b"a\r" * (ENDLESS // 2),
    b"\r\n" * (ENDLESS // 2),
    b" " * ENDLESS,
]


@pytest.mark.timeout(10)
@pytest.mark.parametrize("line", COSTLY)
def test_a_hostile_head_costs_no_more_than_its_length(line: bytes) -> None:
    for _ in range(20):
        with pytest.raises(HttpMessageError):
            parse_request(post(line + b"\r\n"))
        with pytest.raises(HttpMessageError):
            parse_response(answer(line + b"\r\n"), "GET")


# -- bodies ------------------------------------------------------------------------------------------------------

TAKEN: list[tuple[Body, bytes, bytes, bytes]] = [
    (None, b"next", b"", b"next"),
    (0, b"next", b"", b"next"),
    (5, b"hello", b"hello", b""),
    (5, b"hellonext", b"hello", b"next"),
    ("chunked", b"5\r\nhello\r\n0\r\n\r\nnext", b"hello", b"next"),
    ("chunked", b"2\r\nhe\r\n0003\r\nllo\r\n00\r\n\r\n\r\n", b"hello", b"\r\n"),
    ("chunked", b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"0123456789" * 2, b""),
    ("chunked", b"0\r\n\r\n0\r\n\r\n", b"", b"0\r\n\r\n"),
    ("chunked", b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n", b""),
    ("chunked", b"0000000000000001\r\nx\r\n0\r\n\r\n", b"x", b""),
    ("chunked", b"1\r\nx\r\n0\r\nA: b\r\nC:\xff \r\n\r\nnext", b"x", b"next"),
]


def pour(reader: BodyReader, data: bytes, step: int) -> tuple[bytes, bytes]:
    """Feed a body in steps; return it, and what came after it."""
    body, rest = b"", b""
    for at in range(0, len(data), step):
        taken, left = reader.feed(data[at : at + step])
        body, rest = body + taken, rest + left
    return body, rest


@pytest.mark.parametrize(("body", "data", "payload", "rest"), TAKEN)
def test_a_body_ends_where_it_should_however_it_comes(body: Body, data: bytes, payload: bytes, rest: bytes) -> None:
    for step in range(1, len(data) + 1):
        reader = BodyReader(body)
        assert pour(reader, data, step) == (payload, rest)
        assert reader.done
        reader.feed_eof()


BROKEN_BODIES: dict[str, bytes] = {
    "a sign": b"+3\r\nabc\r\n0\r\n\r\n",
    "a minus": b"-3\r\nabc\r\n0\r\n\r\n",
    "a prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
    "an underscore": b"0_3\r\nabc\r\n0\r\n\r\n",
    "an extension": b"3;ext\r\nabc\r\n0\r\n\r\n",
    "an extension of the last chunk": b"0;ext\r\n\r\n",
    "a space after a size": b"3 \r\nabc\r\n0\r\n\r\n",
    "a space before a size": b" 3\r\nabc\r\n0\r\n\r\n",
    "no size": b"\r\nabc\r\n0\r\n\r\n",
    "no number": b"g\r\n",
    "a size of many digits": b"0" * 16 + b"3\r\nabc\r\n0\r\n\r\n",
    "a size that never ends": b"1" * 17,
    "a line feed after a size": b"3\nabc\r\n0\r\n\r\n",
    "a carriage return after a size": b"3\rabc\r\n0\r\n\r\n",
    "no end of a chunk": b"3\r\nabc0\r\n\r\n",
    "a line feed for its end": b"3\r\nabc\n0\r\n\r\n",
    "two bytes for its end": b"3\r\nabcXX0\r\n\r\n",
    "a longer chunk than it says": b"3\r\nabcd\r\n0\r\n\r\n",
    "two ends": b"3\r\nabc\r\n\r\n0\r\n\r\n",
    "a line feed at the end": b"0\r\n\n",
    "line feeds at the end": b"0\n\n",
    "a trailer with a length": b"0\r\nContent-Length: 5\r\n\r\n",
    "a trailer with a coding": b"0\r\ntransfer-encoding: chunked\r\n\r\n",
    "a trailer with a host": b"0\r\nHost: b.test\r\n\r\n",
    "a folded trailer": b"0\r\nA: b\r\n c\r\n\r\n",
    "a trailer without a colon": b"0\r\nGET / HTTP/1.1\r\n\r\n",
    "a trailer with a space before its colon": b"0\r\nA : b\r\n\r\n",
    "a trailer with a bare line feed": b"0\r\nA: b\nC: d\r\n\r\n",
    "a trailer with a zero byte": b"0\r\nA: \0\r\n\r\n",
    "too long trailers": b"0\r\nA: " + b"b" * TRAILER_LIMIT,
    "too many trailers": b"0\r\n" + b"A: b\r\n" * (HEADERS + 1) + b"\r\n",
}


@pytest.mark.parametrize("data", BROKEN_BODIES.values(), ids=BROKEN_BODIES)
def test_a_broken_chunk_is_refused_however_it_comes(data: bytes) -> None:
    for step in (len(data), 1, 2, 3):
        reader = BodyReader("chunked")
        with pytest.raises(HttpMessageError):
            pour(reader, data, step)
        assert not reader.done


CUT: list[tuple[Body, bytes]] = [
    (5, b""),
    (5, b"hell"),
    ("chunked", b""),
    ("chunked", b"5\r\nhello\r\n0\r\n"),
    ("chunked", b"5\r\nhello\r\n"),
    ("chunked", b"5\r\nhel"),
    ("chunked", b"0\r\nA: b\r\n"),
]


@pytest.mark.parametrize(("body", "data"), CUT)
def test_a_body_cut_short_is_broken(body: Body, data: bytes) -> None:
    reader = BodyReader(body)
    reader.feed(data)
    assert not reader.done
    with pytest.raises(HttpMessageError, match="ended before"):
        reader.feed_eof()


def test_a_body_until_the_end_of_its_connection_takes_all() -> None:
    reader = BodyReader("close")
    assert pour(reader, b"0\r\n\r\nhello", 3) == (b"0\r\n\r\nhello", b"")
    assert not reader.done
    reader.feed_eof()
    assert reader.done


def test_the_bytes_of_a_counted_body_are_not_copied() -> None:
    data = bytes(65536)
    reader = BodyReader(1 << 30)
    assert reader.feed(data)[0] is data


# -- fields ------------------------------------------------------------------------------------------------------


def test_fields_are_found_by_name() -> None:
    fields = Headers([(b"A", b"1"), (b"Set-Cookie", b"x"), (b"a", b"2")])
    assert (fields.get(b"a"), fields.get(b"set-cookie"), fields.get(b"b")) == (b"1, 2", b"x", None)
    assert (fields.get_all(b"a"), fields.get_all(b"b")) == ([b"1", b"2"], [])
    assert (b"a" in fields, b"b" in fields, len(fields)) == (True, False, 3)
    assert fields.get_single(b"set-cookie") == b"x"
    with pytest.raises(HttpMessageError, match="repeated"):
        fields.get_single(b"a")
    assert fields.remove([b"a"]).pairs == ((b"Set-Cookie", b"x"),)
    assert fields.add(b"B", b"3").pairs == (*fields.pairs, (b"B", b"3"))
    assert fields == Headers(fields.pairs) != Headers()


def test_field_values_are_not_in_a_repr() -> None:
    assert "secret" not in repr(Headers([(b"Authorization", b"secret")]))


def test_hop_by_hop_fields_are_not_forwarded() -> None:
    fields = Headers(
        [
            (b"Host", b"a.test"),
            (b"Connection", b"Close, X-Drop , host"),
            (b"connection", b"Content-Length,,Upgrade"),
            (b"X-Drop", b"1"),
            (b"x-keep", b"2"),
            (b"Keep-Alive", b"timeout=5"),
            (b"Proxy-Authorization", b"x"),
            (b"proxy-connection", b"x"),
            (b"TE", b"trailers"),
            (b"Trailer", b"x"),
            (b"Transfer-Encoding", b"chunked"),
            (b"Upgrade", b"websocket"),
            (b"Content-Length", b"5"),
        ]
    )
    assert end_to_end(fields) == [(b"Host", b"a.test"), (b"x-keep", b"2"), (b"Content-Length", b"5")]
    assert end_to_end(fields, {b"host"}) == [(b"x-keep", b"2"), (b"Content-Length", b"5")]
    assert end_to_end(Headers([(b"TE", b"x"), (b"A", b"b")])) == [(b"A", b"b")]


# -- writing -----------------------------------------------------------------------------------------------------

AT = (b"Host", b"a.test")


def test_a_head_is_written_as_it_is_read() -> None:
    head = request_head("PUT", b"/a", Headers([AT, (b"X-A", b"one two"), (b"x-a", b"")]))
    assert head == b"PUT /a HTTP/1.1\r\nHost: a.test\r\nX-A: one two\r\nx-a: \r\n\r\n"
    head = format_response_head(404, b"Not Found", Headers([(b"Content-Length", b"0"), (b"X", b"\xe9")]))
    assert head == b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nX: \xe9\r\n\r\n"
    assert format_response_head(200, b"", Headers()) == b"HTTP/1.1 200 \r\n\r\n"


UNWRITABLE_FIELDS: list[tuple[bytes, bytes]] = [
    (b"X", b"a\r\nY: b"),
    (b"X", b"a\nY: b"),
    (b"X", b"a\rb"),
    (b"X", b"a\0"),
    (b"X", b"a\r\n b"),
    (b"X", b" a"),
    (b"X", b"a\t"),
    (b"X Y", b"a"),
    (b"X\r\nY", b"a"),
    (b"X:", b"a"),
    (b"", b"a"),
    (b"X", b"\r\n\r\n"),
    (b"Content-Length", b"+5"),
]


@pytest.mark.parametrize("field", UNWRITABLE_FIELDS)
def test_a_field_that_would_be_read_otherwise_is_not_written(field: tuple[bytes, bytes]) -> None:
    fields = Headers([AT, field])
    with pytest.raises(HttpMessageError) as caught:
        request_head("GET", b"/", fields)
    assert caught.value.status == 500
    with pytest.raises(HttpMessageError):
        format_response_head(200, b"OK", fields)


UNWRITABLE_REQUESTS: list[tuple[str, bytes, Headers]] = [
    ("G T", b"/", Headers([AT])),
    ("GET", b"/ HTTP/1.1\r\nX: y\r\n\r\nGET /", Headers([AT])),
    ("GET / HTTP/1.1\r\nX: y\r\n\r\nGET", b"/", Headers([AT])),
    ("GET", b"/a b", Headers([AT])),
    ("GET", b"", Headers([AT])),
    ("G\u00c9T", b"/", Headers([AT])),
    ("GET", b"/", Headers()),
    ("GET", b"/", Headers([AT, AT])),
    ("GET", b"/", Headers([AT, (b"X", b"\xe9")])),
    ("PUT", b"/", Headers([AT, (b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")])),
]


@pytest.mark.parametrize(("method", "target", "fields"), UNWRITABLE_REQUESTS)
def test_a_request_that_would_be_read_otherwise_is_not_written(method: str, target: bytes, fields: Headers) -> None:
    with pytest.raises(HttpMessageError):
        request_head(method, target, fields)


@pytest.mark.parametrize(
    ("status", "reason"), [(99, b"OK"), (1000, b"OK"), (200, b"O\r\nX: y"), (200, b"\0"), (-20, b"")]
)
def test_an_answer_that_would_be_read_otherwise_is_not_written(status: int, reason: bytes) -> None:
    with pytest.raises(HttpMessageError):
        format_response_head(status, reason, Headers())


def test_chunks_are_written_as_they_are_read() -> None:
    reader = BodyReader("chunked")
    assert encode_chunk(b"") == b""
    assert reader.feed(encode_chunk(b"a" * 300) + encode_chunk(b"b") + LAST + b"next") == (b"a" * 300 + b"b", b"next")


# -- beside another reader ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("answers", [False, True], ids=["requests", "answers"])
def test_what_ours_takes_h11_reads_the_same_way(answers: bool) -> None:
    states = campaign(1, CASES // 4 if answers else CASES, answers)
    assert states["done"] >= ACCEPTED * states.total()
    assert states["broken"] >= ACCEPTED * states.total()
