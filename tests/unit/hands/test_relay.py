"""Tests of the relay between a viewer and a desk's screen: what passes and what does not, mostly hostile streams."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.relay import MAX_PLACES, MAX_PRESSED_KEYS, MAX_TEXT_BYTES, PIXELS, DeskSide, ViewerSide

VERSION = b"RFB 003.008\n"
SERVER_INIT = pack(">HH", 1280, 800) + bytes(16) + pack(">I", 5) + b"<b>x<"
GREETING = VERSION + b"\x01\x01" + bytes(4) + SERVER_INIT
NOVNC = pack(">BxH5i", 2, 5, 1, 7, 16, -223, -239) + pack(">BBHHHH", 3, 0, 0, 0, 1280, 800)
TIGHT, ZRLE = 7, 16


def greeted_desk(*encodings: int) -> DeskSide:
    side = DeskSide()
    side.feed(GREETING)
    assert side.ready
    side.take_back()
    side.encodings.update(encodings)
    return side


def greeted_viewer(driving: bool = False) -> ViewerSide:
    side = ViewerSide(greeted_desk())
    side.feed(VERSION + b"\x01\x01")
    assert side.ready
    side.take_back()
    side.drive(driving)
    return side


def update(*rectangles: bytes) -> bytes:
    return pack(">BxH", 0, len(rectangles)) + b"".join(rectangles)


def rectangle(x: int, y: int, wide: int, high: int, encoding: int, body: bytes = b"") -> bytes:
    return pack(">HHHHi", x, y, wide, high, encoding) + body


def test_the_desk_is_greeted_as_by_a_viewer_that_shares_and_wants_our_pixels() -> None:
    side = DeskSide()
    side.feed(GREETING)
    assert side.take_back() == VERSION + b"\x01" + b"\x01" + pack(">B3x", 0) + PIXELS
    assert side.take() == b""


def test_the_viewer_is_greeted_with_our_size_and_our_name() -> None:
    side = ViewerSide(greeted_desk())
    assert side.take_back() == VERSION
    side.feed(VERSION)
    assert side.take_back() == b"\x01\x01"
    side.feed(b"\x01")
    assert side.take_back() == bytes(4)
    side.feed(b"\x00")
    assert side.take_back() == pack(">HH", 1280, 800) + PIXELS + pack(">I", 4) + b"desk"


@pytest.mark.parametrize(
    "said",
    [
        b"RFB 003.003\n",
        b"HTTP/1.1 200",
        VERSION + b"\x00" + pack(">I", 3) + b"\x01no",
        VERSION + b"\x01\x02",
        VERSION + b"\x02\x13\x12",
        VERSION + b"\x01\x01" + pack(">I", 1),
        VERSION + b"\x01\x01" + bytes(4) + pack(">HH", 65535, 65535) + bytes(20),
        VERSION + b"\x01\x01" + bytes(4) + pack(">HH", 1280, 801) + bytes(20),
        VERSION + b"\x01\x01" + bytes(4) + SERVER_INIT[:20] + b"\xff\xff\xff\xff",
        VERSION + b"\x01\x01" + bytes(4) + SERVER_INIT[:20] + pack(">I", MAX_TEXT_BYTES + 1),
    ],
    ids=["3.3", "http", "nobody", "password", "tls", "refused", "huge", "taller", "name of -1", "long name"],
)
def test_a_desk_that_greets_otherwise_is_not_shown(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        DeskSide().feed(said)


@pytest.mark.parametrize("said", [b"RFB 003.003\n", b"GET / HTTP/1", VERSION + b"\x02"])
def test_a_viewer_that_greets_otherwise_sees_nothing(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        ViewerSide(greeted_desk()).feed(said)


GOOD_UPDATES = {
    "none": update(),
    "raw": update(rectangle(0, 0, 2, 2, 0, bytes(16))),
    "copy": update(rectangle(1279, 799, 1, 1, 1, pack(">HH", 0, 0))),
    "compressed": update(rectangle(0, 0, 1280, 800, ZRLE, pack(">I", 5) + b"abcde")),
    "one colour": update(rectangle(0, 0, 1280, 800, TIGHT, b"\x80abc")),
    "tight": update(rectangle(0, 0, 4, 4, TIGHT, b"\x00\x05abcde")),
    "tight and long": update(rectangle(0, 0, 1280, 800, TIGHT, b"\x10\x81\x01" + bytes(129))),
    "tight and longer": update(rectangle(0, 0, 1280, 800, TIGHT, b"\x10\x80\x80\x04" + bytes(1 << 16))),
    "tight and tiny": update(rectangle(0, 0, 1, 2, TIGHT, b"\x00abcdef")),
    "two colours": update(rectangle(0, 0, 9, 1, TIGHT, b"\x40\x01\x01" + bytes(6) + b"ab")),
    "three colours": update(rectangle(0, 0, 12, 1, TIGHT, b"\x50\x01\x02" + bytes(9) + b"\x01z")),
    "differences": update(rectangle(0, 0, 4, 4, TIGHT, b"\x4f\x02\x01z")),
    "several": update(rectangle(0, 0, 1, 1, 0, bytes(4)), rectangle(5, 5, 9, 9, ZRLE, pack(">I", 1) + b"z")),
}


@pytest.mark.parametrize("said", GOOD_UPDATES.values(), ids=GOOD_UPDATES)
def test_pictures_pass_as_they_are_however_they_are_cut(said: bytes) -> None:
    whole, piecemeal = greeted_desk(1, TIGHT, ZRLE), greeted_desk(1, TIGHT, ZRLE)
    whole.feed(said)
    for byte in said:
        piecemeal.feed(bytes([byte]))
    assert whole.take() == piecemeal.take() == said


BAD_UPDATES = {
    "beyond the right": update(rectangle(1279, 0, 2, 1, 0)),
    "beyond the bottom": update(rectangle(0, 799, 1, 2, 0)),
    "far away": update(rectangle(65535, 65535, 65535, 65535, 0)),
    "empty": update(rectangle(0, 0, 0, 5, 0)),
    "a copy from beyond": update(rectangle(0, 0, 2, 1, 1, pack(">HH", 1279, 0))),
    "too long": update(rectangle(0, 0, 1, 1, ZRLE, pack(">I", 1 << 20))),
    "four gigabytes": update(rectangle(0, 0, 1280, 800, ZRLE, b"\xff\xff\xff\xff")),
    "too many": pack(">BxH", 0, 65535),
    "a resize": update(rectangle(0, 0, 4000, 4000, -223)),
    "an extended resize": update(rectangle(0, 0, 1280, 800, -308)),
    "a cursor": update(rectangle(0, 0, 16, 16, -239)),
    "a name": update(rectangle(0, 0, 1, 1, -307)),
    "a photograph": update(rectangle(0, 0, 1, 1, TIGHT, b"\x90")),
    "a png": update(rectangle(0, 0, 1, 1, TIGHT, b"\xa0")),
    "an unknown filter": update(rectangle(0, 0, 1, 1, TIGHT, b"\x40\x03")),
    "tight and too long": update(rectangle(0, 0, 4, 4, TIGHT, b"\x00\xff\xff\xff")),
    "hextile": update(rectangle(0, 0, 1, 1, 5)),
    "colours": b"\x01" + bytes(5),
    "a fence": b"\xf8" + bytes(8),
    "continuous updates": b"\x96",
    "a cut text of 4 GiB": b"\x03" + bytes(3) + pack(">I", 1 << 31),
}


@pytest.mark.parametrize("said", BAD_UPDATES.values(), ids=BAD_UPDATES)
def test_messages_our_screens_never_send_end_the_view(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        greeted_desk(1, TIGHT, ZRLE).feed(said)


def test_pixels_come_only_in_ways_the_viewer_knows() -> None:
    said = GOOD_UPDATES["compressed"]
    with pytest.raises(ProtocolError):
        greeted_desk().feed(said)


@pytest.mark.parametrize(
    "said",
    [b"\x02", b"\x03" + bytes(3) + pack(">i", 3) + b"abc", b"\x03" + bytes(3) + pack(">i", -6) + b"abcdef"],
    ids=["bell", "cut text", "extended clipboard"],
)
def test_unrequested_data_is_dropped(said: bytes) -> None:
    side = greeted_desk()
    for _ in range(3):
        side.feed(said)
    side.feed(update())
    assert side.take() == update()


def test_the_relay_buffers_no_more_than_a_step_needs() -> None:
    side = greeted_desk(ZRLE)
    side.feed(update(rectangle(0, 0, 1280, 800, ZRLE, pack(">I", 1 << 20))))
    for _ in range(15):
        side.feed(bytes(1 << 16))
        assert len(side.take()) >= 1 << 16
        assert not side.buffer


def test_a_viewer_gets_only_encodings_we_read() -> None:
    side = greeted_viewer()
    side.feed(NOVNC)
    assert side.take() == pack(">BxH5i", 2, 5, 7, 16, 1, 0, -255) + pack(">BBHHHH", 3, 0, 0, 0, 1280, 800)
    assert side.desk.encodings == {7, 16, 1, 0}


def test_a_viewer_may_want_its_colours_in_another_order() -> None:
    side = greeted_viewer()
    asked = pack(">B3x", 0) + pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 0, 8, 16)
    side.feed(asked)
    assert side.take() == asked


def test_a_viewer_asks_for_no_more_than_the_screen() -> None:
    side = greeted_viewer()
    side.feed(pack(">BBHHHH", 3, 7, 1000, 60000, 60000, 60000))
    assert side.take() == pack(">BBHHHH", 3, 1, 1000, 799, 280, 1)


BAD_VIEWERS = {
    "16 bits": pack(">B3x", 0) + pack(">BBBBHHHBBB3x", 16, 16, 0, 1, 31, 63, 31, 11, 5, 0),
    "a palette": pack(">B3x", 0) + pack(">BBBBHHHBBB3x", 32, 24, 0, 0, 255, 255, 255, 0, 8, 16),
    "colours that overlap": pack(">B3x", 0) + pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 8, 8, 16),
    "far shifts": pack(">B3x", 0) + pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 0, 8, 200),
    "encodings without end": pack(">BxH", 2, 65535),
    "a paste of 2 GiB": b"\x06" + bytes(3) + pack(">I", (1 << 31) - 1),
    "set desktop size": b"\xfb" + bytes(23),
    "a scan code": b"\xff" + bytes(11),
    "a fence": b"\xf8" + bytes(8),
    "power": b"\xfa" + bytes(3),
    "unknown": b"\x01",
}


@pytest.mark.parametrize("said", BAD_VIEWERS.values(), ids=BAD_VIEWERS)
def test_messages_our_viewers_never_send_end_the_view(said: bytes) -> None:
    with pytest.raises(ProtocolError):
        greeted_viewer(driving=True).feed(said)


KEY_DOWN, KEY_UP = pack(">BBxxI", 4, 1, 0x61), pack(">BBxxI", 4, 0, 0x61)
CLICK = pack(">BBHH", 5, 1, 10, 20) + pack(">BBHH", 5, 0, 10, 20)


def test_a_viewer_without_control_moves_nothing() -> None:
    side = greeted_viewer()
    side.feed(KEY_DOWN + CLICK + KEY_UP)
    assert side.take() == b""
    assert (side.acts.clicks, side.acts.keys) == (0, 0)


def test_the_viewer_with_control_types_and_clicks() -> None:
    side = greeted_viewer(driving=True)
    side.feed(KEY_DOWN + CLICK + KEY_UP)
    assert side.take() == KEY_DOWN + CLICK + KEY_UP
    assert (side.acts.clicks, side.acts.keys, side.acts.places) == (1, 1, [(10, 20, 1)])


@pytest.mark.parametrize("driving", [False, True])
@pytest.mark.parametrize("length", [3, -3])
def test_a_persons_clipboard_never_reaches_the_desk(driving: bool, length: int) -> None:
    side = greeted_viewer(driving)
    side.feed(b"\x06" + bytes(3) + pack(">i", length) + b"key" + pack(">BBHHHH", 3, 0, 0, 0, 1, 1))
    assert side.take() == pack(">BBHHHH", 3, 0, 0, 0, 1, 1)


def test_held_keys_are_released_with_control() -> None:
    side = greeted_viewer(driving=True)
    side.feed(KEY_DOWN + pack(">BBHH", 5, 5, 2000, 2000))
    side.take()
    side.drive(False)
    assert side.take() == KEY_UP + pack(">BBHH", 5, 0, 1279, 799)
    side.feed(KEY_UP)
    assert side.take() == b""


def test_a_pointer_stays_on_the_screen() -> None:
    side = greeted_viewer(driving=True)
    side.feed(pack(">BBHH", 5, 0, 65535, 65535))
    assert side.take() == pack(">BBHH", 5, 0, 1279, 799)


def test_the_record_of_a_takeover_is_bounded() -> None:
    side = greeted_viewer(driving=True)
    side.feed(CLICK * (MAX_PLACES + 5))
    side.feed(b"".join(pack(">BBxxI", 4, 1, key) for key in range(100)))
    assert side.acts.clicks == MAX_PLACES + 5
    assert len(side.acts.places) == MAX_PLACES
    assert len(side.pressed) == side.acts.keys == MAX_PRESSED_KEYS


@given(st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([*GOOD_UPDATES.values(), *BAD_UPDATES.values()]))))
def test_whatever_a_desk_says_passes_in_bounds_or_ends_the_view(pieces: list[bytes]) -> None:
    side = greeted_desk(1, TIGHT, ZRLE)
    try:
        for piece in pieces:
            side.feed(piece)
            assert len(side.buffer) < 1024
            assert len(side.take()) <= len(piece) + 1024
    except ProtocolError:
        pass


@given(st.booleans(), st.lists(st.one_of(st.binary(max_size=300), st.sampled_from([*BAD_VIEWERS.values(), NOVNC]))))
def test_whatever_a_viewer_says_passes_in_bounds_or_ends_the_view(driving: bool, pieces: list[bytes]) -> None:
    side = greeted_viewer(driving)
    try:
        for piece in pieces:
            side.feed(piece)
            assert len(side.buffer) < 2048
            kinds = {4, 5} if driving else set()
            assert not (out := side.take()) or out[0] in {0, 2, 3, *kinds}
    except ProtocolError:
        pass
