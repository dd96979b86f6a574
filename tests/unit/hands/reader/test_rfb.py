"""Tests of the RFB client: every valid stream is read, every invalid one refused, and memory is bounded."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rfb_server import SIZE, STRANGE, head, hello, raw, update

from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.rfb import (
    FORMAT,
    ONLY_RAW,
    VERSION,
    Conversation,
    Rectangle,
    encode_key,
    encode_pointer,
    encode_request,
)


def after(stream: bytes, step: int = 1 << 20) -> Conversation:
    conversation = Conversation(*SIZE)
    for start in range(0, len(stream), step):
        conversation.feed(stream[start : start + step])
    return conversation


def test_the_handshake_answers_what_was_asked_and_asks_for_our_own_pixels() -> None:
    conversation = after(hello())
    assert conversation.ready
    assert bytes(conversation.outgoing) == VERSION + b"\x01" + b"\x01" + FORMAT + ONLY_RAW


def test_nothing_is_ready_before_the_geometry_was_told() -> None:
    assert not after(hello()[:-5]).ready


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_rectangles_land_where_they_belong_however_the_bytes_come(step: int) -> None:
    red, blue = b"\0\0\xff\0", b"\xff\0\0\0"
    conversation = after(hello() + update(raw(0, 1, 8, 2, red), raw(2, 2, 3, 2, blue), raw(7, 3, 1, 1, red)), step)
    frame, lines = bytes(conversation.frame), []
    for y in range(SIZE[1]):
        line = [frame[(y * 8 + x) * 4 :][:4] for x in range(8)]
        lines.append("".join({red: "r", blue: "b"}.get(pixel, ".") for pixel in line))
    assert lines == ["........", "rrrrrrrr", "rrbbbrrr", "..bbb..r"]
    assert conversation.updates == [(Rectangle(0, 1, 8, 2), Rectangle(2, 2, 3, 2), Rectangle(7, 3, 1, 1))]


def test_bell_and_clipboard_are_ignored() -> None:
    clipboard = struct.pack(">B3xI", 3, 64 << 10) + b"c" * (64 << 10)
    assert len(after(hello() + b"\x02" + clipboard + b"\x02" + update(raw(0, 0, 1, 1))).updates) == 1


def test_an_empty_update_and_an_empty_rectangle_are_no_error() -> None:
    assert after(hello() + update() + update(head(3, 3, 0, 1))).updates == [(), (Rectangle(3, 3, 0, 1),)]


@pytest.mark.parametrize("name", STRANGE)
def test_messages_a_screen_may_not_send_are_refused(name: str) -> None:
    with pytest.raises(ProtocolError):
        after(STRANGE[name])


@pytest.mark.parametrize("name", STRANGE)
def test_malformed_input_is_malformed_when_it_comes_byte_by_byte(name: str) -> None:
    with pytest.raises(ProtocolError):
        after(STRANGE[name], 1)


@given(st.binary(max_size=400))
def test_any_input_after_the_handshake_is_malformed_or_bounded(noise: bytes) -> None:
    conversation = after(hello())
    try:
        for number in range(len(noise)):
            conversation.feed(noise[number : number + 1])
            assert len(conversation.get_space()) <= 64 << 10
    except ProtocolError:
        pass
    assert len(conversation.frame) == SIZE[0] * SIZE[1] * 4


def test_input_and_requests_are_written_as_the_protocol_has_them() -> None:
    assert encode_request(True, 1, 2, 3, 4) == b"\x03\x01\0\x01\0\x02\0\x03\0\x04"
    assert encode_pointer(5, 256, 2) == b"\x05\x05\x01\0\0\x02"
    assert encode_key(0xFF0D, True) == b"\x04\x01\0\0\0\0\xff\x0d"
