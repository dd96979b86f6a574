"""Tests of frames and values between host and guest: valid ones round-trip, others raise WireError."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk_guest import wire
from hotdesk_guest.wire import WireError

NUMBERS = st.integers(-(10**18), 10**18)
TEXTS = st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.binary(), TEXTS)


def nested(depth: int) -> st.SearchStrategy[object]:
    if depth == 1:
        return LEAVES
    inner = nested(depth - 1)
    return st.one_of(LEAVES, st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4))


FRAMES = st.lists(
    st.tuples(st.sampled_from(sorted(wire.GUEST_KINDS)), st.integers(0, 2**32 - 1), st.binary(max_size=300)),
    max_size=8,
)


@given(nested(4))
def test_a_value_makes_the_round_trip(value: object) -> None:
    assert wire.decode(wire.encode(value)) == value


def test_types_survive_the_round_trip() -> None:
    value = [True, False, 1, 0, None, b"x", "x"]
    again = wire.decode(wire.encode(value))
    assert isinstance(again, list)
    assert [type(item) for item in again] == [type(item) for item in value]


@pytest.mark.slow
@given(FRAMES, st.data())
def test_frames_may_arrive_in_any_pieces(frames: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    stream = b"".join(wire.encode_frame(*frame) for frame in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
    got = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += reader.feed(stream[start:end])
    assert got == frames
    assert not reader.buffer


def test_frames_may_arrive_byte_by_byte() -> None:
    reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
    stream = wire.encode_frame(wire.DATA, 7, b"abc") + wire.encode_frame(wire.PONG, 0)
    got = [frame for byte in stream for frame in reader.feed(bytes([byte]))]
    assert got == [(wire.DATA, 7, b"abc"), (wire.PONG, 0, b"")]


@given(st.binary(max_size=2000))
def test_hostile_values_are_only_ever_wire_errors(data: bytes) -> None:
    try:
        wire.decode(data)
    except WireError:
        pass


@given(st.text("ibsldentf0123456789-:;+ _x", max_size=60))
def test_values_that_are_nearly_right_are_only_ever_wire_errors(text: str) -> None:
    try:
        value = wire.decode(text.encode())
    except WireError:
        return
    assert wire.decode(wire.encode(value)) == value


@given(st.binary(max_size=2000))
def test_hostile_frames_are_only_ever_wire_errors(data: bytes) -> None:
    reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
    try:
        for kind, number, payload in reader.feed(data):
            assert kind in wire.GUEST_KINDS
            assert 0 <= number < 1 << 32
            assert len(payload) <= wire.GUEST_LIMIT
    except WireError:
        pass


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"i",
        b"i;",
        b"i-;",
        b"i--1;",
        b"i1-;",
        b"i+1;",
        b"i 1;",
        b"i1_0;",
        b"i1",
        b"i" + b"9" * 5000 + b";",
        "i٣;".encode(),
        b"b-1:",
        b"s-0:x",
        b"s5:abc",
        b"s99999999999999999999:",
        b"b1:",
        b"l",
        b"li1;",
        b"d",
        b"di1;i1;e",
        b"ds1:ae",
        b"ds1:a",
        b"dlei1;e",
        b"nn",
        b"e",
        b"le ",
        b"l" * 60000,
        b"d" * 60000,
        b"ds1:a" * 10000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_a_broken_value_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        wire.decode(data)


def test_a_value_may_be_as_deep_as_allowed_and_no_deeper() -> None:
    fits = b"l" * (wire.MAX_DEPTH - 1) + b"n" + b"e" * (wire.MAX_DEPTH - 1)
    assert wire.encode(wire.decode(fits)) == fits
    with pytest.raises(WireError, match="deep"):
        wire.decode(b"l" + fits + b"e")


@pytest.mark.parametrize("part", [b"le", b"n", b"i1;", b"s0:", b"de", b"i-1;"])
def test_the_largest_value_takes_little_time(part: bytes) -> None:
    data = b"l" + part * ((wire.GUEST_LIMIT - 2) // len(part)) + b"e"
    start = time.thread_time()
    wire.decode(data)
    assert time.thread_time() - start < 1


def test_a_header_is_refused_before_its_payload_comes() -> None:
    reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
    with pytest.raises(WireError, match="bytes"):
        reader.feed((wire.GUEST_LIMIT + 1).to_bytes(4, "big") + bytes([wire.DATA]) + bytes(4))


@pytest.mark.parametrize("kind", [0, wire.OPEN, wire.END, wire.SIGNAL, wire.DROP, wire.PING, 12, 255])
def test_frames_only_hosts_send_are_refused_from_a_guest(kind: int) -> None:
    with pytest.raises(WireError, match="kind"):
        wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT).feed(wire.encode_frame(kind, 1))


def test_the_largest_frame_passes() -> None:
    reader = wire.FrameReader(wire.GUEST_KINDS, wire.GUEST_LIMIT)
    assert reader.feed(wire.encode_frame(wire.DATA, 1, bytes(wire.GUEST_LIMIT)))[0][2] == bytes(wire.GUEST_LIMIT)


@pytest.mark.parametrize("value", [1.5, {1, 2}, object(), "\ud800", 10**25], ids=range(5))
def test_a_value_that_cannot_be_sent_is_a_wire_error(value: object) -> None:
    with pytest.raises(WireError):
        wire.encode([value])


def test_tiny_frames_cost_more_than_their_bytes() -> None:
    assert wire.compute_cost(b"") >= 32
    assert wire.compute_cost(bytes(wire.CHUNK + 1)) <= wire.STEP <= wire.WINDOW // 2
