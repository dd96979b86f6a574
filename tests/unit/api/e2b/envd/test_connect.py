"""Tests of the Connect protocol: messages in envelopes, whatever pieces the bytes arrive in."""

from __future__ import annotations

import json
from collections.abc import Iterable

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message as Event
from tests.sent_bodies import asked, run

from hotdesk.api.e2b.envd import connect, process
from hotdesk.api.e2b.envd.connect import RpcError
from hotdesk.errors import BriefError

TEXT = st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
MESSAGE = st.dictionaries(TEXT, TEXT | st.integers(), max_size=3)
CUTS = st.lists(st.integers(0, 400), max_size=8)


async def heard(request: Request) -> list[connect.Message]:
    return [one async for one in connect.iterate_messages(request)]


@pytest.mark.slow
@given(st.lists(MESSAGE, max_size=5), CUTS)
def test_messages_are_the_same_however_their_bytes_are_cut(messages: list[connect.Message], cuts: list[int]) -> None:
    data = b"".join(connect.encode_envelope(one) for one in messages) + connect.encode_envelope({}, connect.END)
    assert run(heard(asked(data, cuts))) == messages


@given(st.binary(max_size=60), CUTS)
def test_bytes_that_are_not_envelopes_are_refused_as_the_callers_error(data: bytes, cuts: list[int]) -> None:
    code = ""
    try:
        assert all(isinstance(one, dict) for one in run(heard(asked(data, cuts))))
    except RpcError as e:
        code = e.code
    assert code in ("", "invalid_argument", "resource_exhausted")


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\0", "invalid_argument"),
        (b"\0\0\0\0\x05{}", "invalid_argument"),
        (b"\x01\0\0\0\x02{}", "invalid_argument"),
        (b"\0\x7f\xff\xff\xff{}", "resource_exhausted"),
        (connect.encode_envelope([1]), "invalid_argument"),
        (b"\0\0\0\0\x02{]", "invalid_argument"),
        (b"\0\0\0\0\x02\xff\xfe", "invalid_argument"),
        (connect.encode_envelope({}, connect.END), "invalid_argument"),
        (b"", "invalid_argument"),
    ],
)
def test_a_stream_without_a_message_is_refused_with_the_reason(data: bytes, code: str) -> None:
    with pytest.raises(RpcError) as caught:
        run(connect.read_single_message(asked(data)))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "data", [b"[]", b"null", b"{", b'"x"', b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000]
)
def test_a_body_that_is_not_a_message_is_refused(data: bytes) -> None:
    with pytest.raises(RpcError, match="JSON object"):
        run(connect.unary(asked(data, range(0, len(data), 1 << 14))))


def test_an_empty_body_is_an_empty_message() -> None:
    assert run(connect.unary(asked(b""))) == {}


def test_an_oversized_body_is_refused_unread() -> None:
    with pytest.raises(RpcError, match="more than"):
        run(connect.unary(asked(bytes(connect.MAX_BYTES + 1), range(0, connect.MAX_BYTES, 1 << 20))))


def test_a_compressed_body_is_refused() -> None:
    with pytest.raises(RpcError, match="compressed requests are not supported"):
        run(connect.unary(asked(b"{}", headers={"content-encoding": "gzip"})))


def test_a_request_whose_caller_disconnects_is_an_error() -> None:
    with pytest.raises(RpcError, match="disconnected"):
        run(connect.unary(asked(b"{}", whole=False)))


@pytest.mark.slow
@given(JSON, JSON, JSON)
def test_any_process_request_is_read_or_refused(told: object, pty: object, tag: object) -> None:
    whole: connect.Message = {"process": told, "pty": pty, "tag": tag}
    named: connect.Message = {"process": {"cmd": "x", "args": told, "envs": pty}}
    for message in (whole, named):
        try:
            process.parse_request(message)
            process.as_size(message)
        except (RpcError, BriefError) as e:
            json.dumps(str(e))


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("1500", 1.5), ("0", None), ("", None), ("-1", None), ("1e3", None), ("²", None), ("9" * 11, None)],
)
def test_the_timeout_header_of_a_caller_is_read(told: str, seconds: float | None) -> None:
    assert connect.parse_deadline(asked(headers={"connect-timeout-ms": told})) == seconds
    assert connect.parse_deadline(asked()) is None


@pytest.mark.parametrize(("told", "seconds"), [("50", 50.0), ("0", 90.0), ("x", 90.0), ("1" * 6, 90.0), ("", 90.0)])
def test_the_keepalive_header_of_a_caller_is_read(told: str, seconds: float) -> None:
    assert connect.parse_keepalive(asked(headers={"keepalive-ping-interval": told})) == seconds


def test_a_stream_ends_with_its_error() -> None:
    sent: list[Event] = []

    async def send(event: Event) -> None:
        sent.append(event)

    async def tell(say: connect.Say) -> None:
        await say({"a": 1})
        raise RpcError("not_found", "it is not there")

    request = asked(b"", whole=True)
    run(connect.Envelopes(tell)(request.scope, silent, send))
    parts: Iterable[bytes] = (event["body"] for event in sent[1:])
    error = {"error": {"code": "not_found", "message": "it is not there"}}
    assert b"".join(parts) == connect.encode_envelope({"a": 1}) + connect.encode_envelope(error, connect.END)
    assert [event.get("more_body") for event in sent[1:]] == [True, False]


def test_the_head_of_a_stream_is_sent_with_its_first_message() -> None:
    sent: list[str] = []

    async def send(event: Event) -> None:
        sent.append(event["type"])

    async def tell(say: connect.Say) -> None:
        await anyio.lowlevel.checkpoint()
        sent.append("program starts")
        await say({"a": 1})

    request = asked(b"", whole=True)
    run(connect.Envelopes(tell)(request.scope, silent, send))
    assert sent == ["program starts", "http.response.start", "http.response.body", "http.response.body"]


async def silent() -> Event:
    await anyio.sleep_forever()
    raise AssertionError
