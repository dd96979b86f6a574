"""Tests of people viewing a screen: real sockets, and a scripted screen."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from struct import pack

import anyio
import pytest

from hotdesk.errors import DeskError
from hotdesk.hands.reader import ProtocolError
from hotdesk.hands.reader.relay import PIXELS
from hotdesk.hands.reader.view import MAX_VIEWERS, ScreenRelay
from hotdesk.linux.sockets import receive, send

VERSION = b"RFB 003.008\n"
GREETING = VERSION + b"\x01\x01" + bytes(4) + pack(">HH", 1280, 800) + bytes(20)
GREETED = len(VERSION + b"\x01\x01") + 4 + len(PIXELS)
KEY = pack(">BBxxI", 4, 1, 0x61)


class Stage:
    """A view, and the screens it connected to."""

    def __init__(self) -> None:
        self.view = ScreenRelay(self.dial)
        self.screens: list[socket.socket] = []

    async def dial(self, port: int) -> socket.socket:
        assert port == 5900
        near, far = socket.socketpair()
        for sock in (near, far):
            sock.setblocking(False)
        far.send(GREETING)
        self.screens.append(far)
        return near

    async def look(self, number: int, start: Callable[..., object]) -> socket.socket:
        """Have one more person look; return their end."""
        near, far = socket.socketpair()
        far.setblocking(False)
        start(self.view.join, near, number)
        await read(far, 12)
        await send(far, VERSION + b"\x01\x01")
        await read(far, 2 + 4 + 4 + 16 + 4 + 4)
        await read(self.screens[-1], GREETED)
        return far


async def read(sock: socket.socket, size: int) -> bytes:
    data = b""
    with anyio.fail_after(30):
        while len(data) < size:
            data += await receive(sock)
    assert len(data) == size, data
    return data


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    yield made
    for screen in made.screens:
        screen.close()


@asynccontextmanager
async def crowd() -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


async def test_each_viewer_has_a_connection_of_its_own_and_sees_what_is_drawn(stage: Stage) -> None:
    async with crowd() as tasks:
        one, two = await stage.look(1, tasks.start_soon), await stage.look(2, tasks.start_soon)
        with one, two:
            assert len(stage.screens) == 2
            stage.screens[1].send(pack(">BxH", 0, 0))
            assert await read(two, 4) == pack(">BxH", 0, 0)


async def test_only_the_viewer_with_control_moves_anything(stage: Stage) -> None:
    async with crowd() as tasks:
        one, two = await stage.look(1, tasks.start_soon), await stage.look(2, tasks.start_soon)
        with one, two:
            await stage.view.lease(2)
            one.send(KEY + pack(">BBHHHH", 3, 0, 0, 0, 1, 1))
            two.send(KEY)
            assert await read(stage.screens[0], 10) == pack(">BBHHHH", 3, 0, 0, 0, 1, 1)
            assert await read(stage.screens[1], 8) == KEY
            await stage.view.lease(0)
            assert await read(stage.screens[1], 8) == pack(">BBxxI", 4, 0, 0x61)
            assert (await stage.view.acted()).value == {"clicks": 0, "keys": 1, "places": []}


@pytest.mark.slow
async def test_an_arriving_viewer_is_waited_for_and_a_missing_one_reported(stage: Stage) -> None:
    async with crowd() as tasks:
        async with anyio.create_task_group() as waiting:
            waiting.start_soon(stage.view.present, 1)
            await anyio.wait_all_tasks_blocked()
            one = await stage.look(1, tasks.start_soon)
        with one, pytest.raises(DeskError, match="take over again when it is shown"):
            await stage.view.present(2)


async def test_a_viewer_that_is_gone_loses_control(stage: Stage) -> None:
    async with crowd() as tasks:
        with await stage.look(1, tasks.start_soon) as one:
            await stage.view.lease(1)
            one.send(KEY)
            await read(stage.screens[0], 8)
        while stage.view.looking:
            await anyio.sleep(0.001)
        assert stage.view.holder == 0
        assert (await stage.view.acted()).value == {"clicks": 0, "keys": 1, "places": []}
        with pytest.raises(DeskError):
            await stage.view.lease(1)


async def test_a_viewer_is_shown_nothing_more_when_it_is_dropped(stage: Stage) -> None:
    async with crowd() as tasks:
        with await stage.look(7, tasks.start_soon) as one:
            await stage.view.drop(7)
            with anyio.fail_after(30):
                assert await receive(one) == b""


async def test_a_screen_that_breaks_the_rules_ends_its_view(stage: Stage) -> None:
    async with anyio.create_task_group() as tasks:
        outcome: list[type[BaseException]] = []

        async def join(*arguments: object) -> None:
            try:
                await stage.view.join(*arguments[1:])  # type: ignore[arg-type]
            except ProtocolError as e:
                outcome.append(type(e))

        with await stage.look(1, lambda *each: tasks.start_soon(join, *each)) as one:
            stage.screens[0].send(b"\x01")
            with anyio.fail_after(30):
                assert await receive(one) == b""
    assert outcome == [ProtocolError]
    assert not stage.view.looking


async def test_a_slow_viewer_makes_its_desk_wait(stage: Stage) -> None:
    async with crowd() as tasks:
        with await stage.look(1, tasks.start_soon) as one:
            screen = stage.screens[0]
            raw = pack(">BxH", 0, 1) + pack(">HHHHi", 0, 0, 1280, 800, 0) + bytes(1280 * 800 * 4)
            sent = 0
            with anyio.move_on_after(0.3):
                while True:
                    await send(screen, raw)
                    sent += 1
            assert sent == 0
            with anyio.fail_after(30):
                assert len(await receive(one)) > 0


async def test_the_number_of_viewers_is_limited(stage: Stage) -> None:
    async with crowd() as tasks:
        people = [await stage.look(number, tasks.start_soon) for number in range(1, MAX_VIEWERS + 1)]
        near, far = socket.socketpair()
        with far, pytest.raises(DeskError):
            await stage.view.join(near, 99)
        for each in people:
            each.close()
