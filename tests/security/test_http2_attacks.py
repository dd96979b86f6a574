"""Attacks by HTTP/2: making a server work for nothing, or expressing what HTTP/1.1 cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from h2.exceptions import H2Error
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.security.guards import Removal, falls_without, no_guard
from tests.security.http2_room import NAME, Http2Client, Http2Room, http2_room

pytestmark = pytest.mark.timeout(60)
CALM = int(ErrorCodes.ENHANCE_YOUR_CALM)
LIBRARY = "h2 refuses it before anything of ours reads it"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Http2Room]:
    with http2_room(tmp_path) as found:
        yield found


@pytest.fixture
def client(room: Http2Room) -> Iterator[Http2Client]:
    with Http2Client(room) as found:
        yield found


@no_guard("no attack: what all the others differ from")
def test_requests_share_a_connection(room: Http2Room, client: Http2Client) -> None:
    first, second = client.request("/slow"), client.request("/?300000")
    assert client.answer(second) == (200, b"x" * 300_000)
    stream = client.request("/", end=False, method="POST")
    client.state.send_data(stream, b"a" * 5000, end_stream=True)
    client.flush()
    assert client.answer(stream) == (200, b"5000")
    assert dict(room.heard[-1]["headers"])[b"transfer-encoding"] == b"chunked"
    assert (room.heard[-1]["http_version"], room.heard[-1]["scheme"]) == ("2", "https")
    client.state.reset_stream(first)
    client.flush()
    deadline = time.monotonic() + 5
    while not room.ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert room.ended == ["/slow"]


@falls_without(
    "HTTP/2: cancelled requests are counted",
    Removal("http2/connection.py", "                self.budget.spend_reset()\n", "                pass\n"),
)
def test_requests_that_are_cancelled_at_once_end_the_connection(room: Http2Room, client: Http2Client) -> None:
    for number in range(400):
        if number % 10 == 9:
            time.sleep(0.02)  # the requests have been answered by now
        stream = client.request("/")
        try:
            client.state.reset_stream(stream)
        except H2Error:
            break
        client.flush()
        if client.is_closed:
            break
    assert client.goodbye() in (CALM, -1)
    assert len(room.heard) < 300


@falls_without(
    "HTTP/2: requests under way are counted",
    Removal("http2/connection.py", "        if self.running >= MAX_STREAMS:\n", "        if False:\n"),
)
@pytest.mark.long
def test_cancelled_requests_count_while_they_still_run(room: Http2Room, client: Http2Client) -> None:
    for _ in range(60):
        client.state.reset_stream(client.request("/stubborn"))
    for _ in range(60):
        client.request("/stubborn")
    client.flush()
    assert client.goodbye() in (CALM, -1)
    assert len(room.heard) == 100


@no_guard(LIBRARY)
@pytest.mark.long
def test_more_concurrent_requests_than_allowed_end_the_connection(room: Http2Room, client: Http2Client) -> None:
    encoder = Encoder()
    for number in range(120):
        head = encoder.encode([(":method", "GET"), (":path", "/slow"), (":scheme", "https"), (":authority", NAME)])
        client.send_frames(HeadersFrame(2 * number + 1, head, flags=["END_HEADERS", "END_STREAM"]))
    assert client.goodbye() is not None
    assert len(room.heard) <= 100


@falls_without(
    "HTTP/2: heads have an end",
    Removal("http2/connection.py", " or self.unfinished > _UNFINISHED_LIMIT", ""),
)
def test_an_endless_head_ends_the_connection(client: Http2Client) -> None:
    assert client.read()  # and acknowledge its settings: any other frame would end the head
    client.send_frames(HeadersFrame(1, b"", flags=[]))
    for _ in range(50):
        client.send_frames(ContinuationFrame(1, b"\x00" * 4096))
    assert client.goodbye(10) in (CALM, -1)


@falls_without(
    "HTTP/2: responses of which nothing is accepted end",
    Removal("http2/stream.py", "asyncio.timeout(self.patience_s)", "asyncio.timeout(None)"),
)
@pytest.mark.parametrize("how", ["silent", "other window"])
def test_a_client_that_closes_its_window_holds_no_response(room: Http2Room, client: Http2Client, how: str) -> None:
    """A window that grows for the connection only wakes its responses, and is no progress of theirs."""
    client.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    client.flush()
    streams = [client.request("/?5000") for _ in range(5)]
    deadline = time.monotonic() + 20
    while len(client.resets) < 5 and time.monotonic() < deadline:
        if how == "other window":
            client.state.increment_flow_control_window(1)
            client.flush()
        client.read(0.2)
    assert client.resets == {*streams}
    while len(room.answered) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)  # the application returns just after its response is reset
    assert room.answered == ["/"] * 5
    client.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 65535})
    client.flush()
    assert client.answer(client.request("/?5000")) == (200, b"x" * 5000)


@falls_without(
    "HTTP/2: accepting a byte now and then is no progress",
    Removal("http2/stream.py", "if self.accepted >= WRITE_PROGRESS:", "if self.accepted:"),
)
def test_a_client_that_accepts_a_byte_now_and_then_holds_no_response(room: Http2Room, client: Http2Client) -> None:
    client.state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
    client.flush()
    streams = [client.request("/?5000") for _ in range(5)]
    deadline = time.monotonic() + 20
    while len(client.resets) < 5 and time.monotonic() < deadline:
        client.send_frames(*(WindowUpdateFrame(stream, 1) for stream in streams))
        client.sock.settimeout(0.3)
        time.sleep(0.2)
        with suppress(TimeoutError):
            client.note_frames(client.sock.recv(1 << 16))  # `read` would acknowledge what it reads
    assert client.resets == {*streams}
    while len(room.answered) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert room.answered == ["/"] * 5


@no_guard(LIBRARY)
@pytest.mark.long
def test_a_head_that_unpacks_to_megabytes_is_not_unpacked(room: Http2Room, client: Http2Client) -> None:
    encoder = Encoder()
    head = encoder.encode([(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", NAME)])
    head += encoder.encode([("x-bomb", "a" * 3900)])
    head += encoder.encode([("x-bomb", "a" * 3900)]) * 4000
    client.send_frames(HeadersFrame(1, head[:16000], flags=["END_STREAM", "END_HEADERS"]))
    assert client.goodbye() is not None
    assert room.heard == []


@falls_without(
    "HTTP/2: frames that ask for an answer are counted",
    Removal(
        "http2/connection.py",
        "            case _:\n                self.budget.spend()\n",
        "            case _:\n                pass\n",
    ),
    cases="pings | priorities",
)
@falls_without(
    "HTTP/2: settings are counted",
    Removal(
        "http2/connection.py",
        "            case RemoteSettingsChanged():\n                self.budget.spend()\n",
        "            case RemoteSettingsChanged():\n",
    ),
    cases="settings",
)
@falls_without(
    "HTTP/2: frames without data are counted",
    Removal("http2/connection.py", "        if not data:\n            self.budget.spend()\n", ""),
    cases="empty data",
)
@pytest.mark.parametrize("kind", ["pings", "settings", "priorities", "empty data"])
@pytest.mark.long
def test_frames_that_do_nothing_end_the_connection(client: Http2Client, kind: str) -> None:
    stream = client.request("/", end=False, method="POST")
    frames = {
        "pings": PingFrame(0, b"8 bytes."),
        "settings": SettingsFrame(0, {SettingsFrame.MAX_CONCURRENT_STREAMS: 7}),
        "priorities": PriorityFrame(stream + 2, depends_on=0, stream_weight=7),
        "empty data": DataFrame(stream, b""),
    }
    for _ in range(40):
        client.send_frames(*[frames[kind]] * 100)
        if client.is_closed:
            break
    assert client.goodbye() in (CALM, -1)


@falls_without(
    "HTTP/2: a path is one",
    Removal("http2/heads.py", " or not _TARGET.fullmatch(target):\n", ":\n"),
    cases="an address | a space | a fragment",
)
@falls_without(
    "HTTP/2: headers are few",
    Removal("http2/heads.py", "        if count >= max_headers:\n", "        if False:\n"),
    cases="many headers",
)
@no_guard(LIBRARY, cases="nothing | a tunnel | another host | chunks | a line break | a large letter | two paths")
@pytest.mark.parametrize(
    "fields",
    [
        [(":path", "https://evil.test/")],
        [(":path", "/a b")],
        [(":path", "")],
        [(":path", "/#a")],
        [("host", "evil.test")],
        [("transfer-encoding", "chunked")],
        [("x-a", "b\r\nX-C: d")],
        [("X-Large", "a")],
        [(":path", "/b"), (":path", "/c")],
        [(f"x-{number}", "a") for number in range(260)],
        [(":method", "CONNECT")],
    ],
    ids=[
        "an address", "a space", "nothing", "a fragment", "another host", "chunks", "a line break", "a large letter",
        "two paths", "many headers", "a tunnel",
    ],
)  # fmt: skip
@pytest.mark.long
def test_a_head_that_is_invalid_in_http_1_is_refused(
    room: Http2Room, client: Http2Client, fields: list[tuple[str, str]]
) -> None:
    usual = {":method": "GET", ":path": "/", ":scheme": "https", ":authority": NAME}
    once = {name: value for name, value in fields if name in usual}
    pseudo = [(name, once.get(name, value)) for name, value in usual.items()]
    more = [pair for pair in fields if pair[0] not in usual or (pair[0] == ":path" and len(fields) == 2)]
    client.send_frames(HeadersFrame(1, Encoder().encode(pseudo + more), flags=["END_HEADERS", "END_STREAM"]))
    assert client.answer(1)[0] == 0
    assert room.heard == []


@falls_without("HTTP/2: heads have an end")
@pytest.mark.long
def test_http_1_requests_end_an_http_2_connection(client: Http2Client) -> None:
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 20_000)
    assert client.goodbye(3) in (CALM, -1)
