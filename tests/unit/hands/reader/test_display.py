"""Tests of a screen's verbs against servers of the test's own: correct, slow and hostile ones."""

from __future__ import annotations

import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from io import BytesIO

import anyio
import pytest
from anyio.abc import SocketStream
from PIL import Image
from tests.rfb_server import SIZE, STRANGE, VERSION, hello, raw, update

from hotdesk.errors import DeskError
from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.display import Display

Serve = Callable[[SocketStream], Awaitable[None]]
RED, BLUE = b"\0\0\xff\0", b"\xff\0\0\0"


@asynccontextmanager
async def screen(serve: Serve, patience: float = 10.0, most: int = 64 << 20) -> AsyncIterator[Display]:
    async with anyio.create_task_group() as tasks:

        async def dial(port: int) -> socket.socket:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            tasks.start_soon(talk, theirs)
            return ours

        async def talk(end: socket.socket) -> None:
            async with await SocketStream.from_socket(end) as stream:
                with suppress(anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError):
                    await serve(stream)

        shown = Display(dial, SIZE, patience, most)
        yield shown
        shown.drop()
        tasks.cancel_scope.cancel()


class Server:
    """A correct server that records what it was sent."""

    def __init__(self, *colours: bytes) -> None:
        self.colours = list(colours)
        self.heard: list[bytes] = []

    async def __call__(self, stream: SocketStream) -> None:
        await stream.send(VERSION)
        await exactly(stream, 12)
        await stream.send(b"\x01\x01")
        await exactly(stream, 1)
        await stream.send(bytes(4))
        await exactly(stream, 1)
        await stream.send(hello()[len(VERSION) + 6 :])
        await exactly(stream, 28)
        while True:
            await self.answer(stream)

    async def answer(self, stream: SocketStream) -> None:
        kind = await exactly(stream, 1)
        rest = await exactly(stream, {3: 9, 4: 7, 5: 5}[kind[0]])
        self.heard.append(kind + rest)
        if kind[0] == 3 and not rest[0]:  # a part that is sent whether it changed or not
            colour = self.colours.pop(0) if len(self.colours) > 1 else self.colours[0]
            await stream.send(update(raw(0, 0, *SIZE, colour)))


async def exactly(stream: SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await stream.receive(count - len(data))
    return data


def colour(data: bytes) -> object:
    return Image.open(BytesIO(data)).convert("RGB").getpixel((0, 0))


async def test_every_picture_is_fresh() -> None:
    async with screen(Server(RED, BLUE)) as shown:
        assert colour((await shown.shot()).blob) == (255, 0, 0)
        assert colour((await shown.shot()).blob) == (0, 0, 255)


@pytest.mark.parametrize(
    ("asked", "size"),
    [({}, (8, 4)), ({"region": [2, 1, 5, 3]}, (3, 2)), ({"width": 4}, (4, 2)), ({"width": 5, "height": 9}, (5, 9))],
)
async def test_a_picture_has_the_size_that_was_asked_for(asked: dict[str, object], size: tuple[int, int]) -> None:
    async with screen(Server(RED)) as shown:
        for kind in ("png", "jpeg"):
            told = await shown.shot(**asked, format=kind)  # type: ignore[arg-type]
            assert told.value == {"width": size[0], "height": size[1], "media": f"image/{kind}"}
            picture = Image.open(BytesIO(told.blob))
            assert (picture.size, picture.format) == (size, kind.upper())


@pytest.mark.parametrize(
    "asked",
    [
        {"region": [0, 0, 9, 4]},
        {"region": [3, 0, 3, 4]},
        {"region": [0, 0, 1]},
        {"region": [0, 0, 1.5, 1]},
        {"width": 0},
        {"width": 5000},
        {"quality": 0},
        {"format": "gif"},
    ],
)
async def test_a_picture_that_cannot_be_is_refused(asked: dict[str, object]) -> None:
    async with screen(Server(RED)) as shown:
        with pytest.raises(DeskError):
            await shown.shot(**asked)  # type: ignore[arg-type]


async def test_input_arrives_in_order_and_is_taken_before_the_call_returns() -> None:
    server = Server(RED)
    async with screen(server) as shown:
        events = [["move", 3, 2], ["button", 1, True], ["button", 3, True], ["button", 1, False], ["key", 0x61, True]]
        await shown.input(events)
        sent = [b"\x05\0\0\x03\0\x02", b"\x05\x01\0\x03\0\x02", b"\x05\x05\0\x03\0\x02", b"\x05\x04\0\x03\0\x02"]
        assert server.heard[:5] == [*sent, b"\x04\x01\0\0\0\0\0\x61"]
        assert (await shown.cursor()).value == {"x": 3, "y": 2}


@pytest.mark.parametrize(
    "event",
    [["move", 8, 0], ["move", -1, 0], ["move", 1.0, 0], ["button", 9, True], ["button", 1, 1], ["key", 0, True],
     ["key", 1 << 32, True], ["pause", -1], ["pause", 1000], ["pause", float("nan")], ["fly"], []],
)  # fmt: skip
async def test_invalid_input_is_refused_and_nothing_is_sent(event: list[object]) -> None:
    server = Server(RED)
    async with screen(server) as shown:
        with pytest.raises(DeskError, match="8 by 4"):
            await shown.input([["move", 1, 1], event])
        assert server.heard == []


async def test_a_picture_that_changes_has_settled_when_it_stops() -> None:
    async with screen(Server(RED, BLUE, RED, BLUE)) as shown:
        told = (await shown.settle(quiet=0.15, timeout=5)).value
        assert isinstance(told, dict)
        assert told["settled"]
        assert told["changed"] == 1
        assert 0.05 < told["seconds"] < 2


async def test_a_picture_that_never_rests_has_not_settled() -> None:
    async with screen(Server(*[RED, BLUE] * 100)) as shown:
        told = (await shown.settle(quiet=0.2, timeout=0.4)).value
        assert isinstance(told, dict)
        assert not told["settled"]


async def test_what_changed_since_a_mark_is_reported() -> None:
    async with screen(Server(RED, BLUE)) as shown:
        await shown.mark("before")
        assert (await shown.difference("before")).value == {"changed": 1.0, "region": (0, 0, 8, 4)}
        with pytest.raises(DeskError, match="never"):
            await shown.difference("never")
        for number in range(10):
            await shown.mark(str(number))
        assert list(shown.marks) == ["6", "7", "8", "9"]


async def test_a_connection_that_broke_while_nobody_looked_is_made_again() -> None:
    served = 0

    async def once(stream: SocketStream) -> None:
        nonlocal served
        served += 1
        with anyio.move_on_after(0.1):
            await Server(RED)(stream)

    async with screen(once) as shown:
        await shown.shot()
        await anyio.sleep(0.15)
        await shown.shot()
        assert served == 2


@pytest.mark.parametrize("name", STRANGE)
async def test_a_hostile_screen_is_a_protocol_error_and_costs_no_memory(name: str) -> None:
    async def serve(stream: SocketStream) -> None:
        await stream.send(STRANGE[name])
        await anyio.sleep(60)

    async with screen(serve) as shown:
        tracemalloc.start()
        try:
            with anyio.fail_after(30), pytest.raises(ProtocolError):
                await shown.shot()
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()
        assert shown.line is None


async def silent(stream: SocketStream) -> None:
    await anyio.sleep(60)


async def dripping(stream: SocketStream) -> None:
    for byte in hello() + update(raw(0, 0, *SIZE)):
        await stream.send(bytes([byte]))
        await anyio.sleep(0.05)


async def deaf(stream: SocketStream) -> None:
    await stream.send(hello())
    await anyio.sleep(60)


async def chattering(stream: SocketStream) -> None:
    await stream.send(hello())
    while True:
        await stream.send(b"\x02" * 10)
        await anyio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("serve", [silent, dripping, deaf, chattering])
async def test_a_screen_that_does_not_answer_is_given_up_in_time(serve: Serve) -> None:
    async with screen(serve, patience=0.3) as shown:
        with anyio.fail_after(30), pytest.raises(DeskError, match="did not respond"):
            await shown.shot()
        assert shown.line is None


async def closing(stream: SocketStream) -> None:
    await stream.send(hello() + struct.pack(">BxH", 0, 1) + raw(0, 0, *SIZE)[:-1])
    await stream.send_eof()
    await anyio.sleep(1)


async def test_a_screen_that_hangs_up_in_a_rectangle_is_an_error() -> None:
    async with screen(closing) as shown:
        with pytest.raises(DeskError, match="was lost"):
            await shown.shot()


async def flooding(stream: SocketStream) -> None:
    await stream.send(hello())
    other = update(*[raw(0, SIZE[1] - 1, 1, 1)] * 60)  # never the pixel that was asked for
    while True:
        await stream.send(other)


@pytest.mark.slow
async def test_a_screen_that_paints_without_end_is_malformed() -> None:
    async with screen(flooding, most=1 << 20) as shown:
        with anyio.fail_after(30), pytest.raises(ProtocolError, match="within 1,048,576 bytes"):
            await shown.shot()
