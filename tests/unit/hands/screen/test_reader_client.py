"""Tests of a desk's seat: when a reader is started, and what its users are told when the desk has ended."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.desk.wall.local.runtime import local_runtime
from hotdesk.errors import DeskGone
from hotdesk.hands.reader import SCREEN_PORT, make_reader_frames
from hotdesk.hands.screen.reader_client import AT_ONCE, DeskSeat, Lines
from hotdesk.ipc.frames import write
from hotdesk.ipc.tasks import Background, background
from hotdesk.linux.sockets import receive, send

pytestmark = pytest.mark.anyio


class Readers:
    """The other ends of the readers that a seat starts."""

    def __init__(self, desk: Desk, tasks: Background) -> None:
        self.seat = DeskSeat(desk, self.start, tasks, self.dismiss)
        self.lines: list[Lines] = []
        self.dismissed = 0
        self.may_start = anyio.Event()
        self.may_start.set()

    async def start(self) -> Lines:
        await self.may_start.wait()
        talk, hears = socket.socketpair()
        hand, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for each in (hears, takes):
            each.setblocking(False)
        self.lines.append((hears, takes))
        return talk, hand

    async def dismiss(self, talk: socket.socket) -> None:
        self.dismissed += 1

    async def hear(self) -> None:
        """Wait for a request to the newest reader."""
        frames = make_reader_frames()
        while not list(frames.feed(await receive(self.lines[-1][0]))):
            pass

    async def dial(self, *numbers: int) -> None:
        await send(self.lines[-1][0], b"".join(write({"dial": number, "port": SCREEN_PORT}) for number in numbers))

    async def take(self) -> dict[str, object]:
        """Return the next answer to a dial."""
        with anyio.fail_after(20):
            await anyio.wait_readable(self.lines[-1][1])
        data, fds, _, _ = socket.recv_fds(self.lines[-1][1], 4096, 1)
        for fd in fds:
            socket.close(fd)
        answer: dict[str, object] = json.loads(data)
        return answer


@asynccontextmanager
async def readers_at() -> AsyncIterator[tuple[Readers, Desk]]:
    async with local_runtime() as runtime, background() as tasks:
        desk = await runtime.open(Spec())
        readers = Readers(desk, tasks)
        try:
            yield readers, desk
        finally:
            readers.seat.close()
            for each in [sock for lines in readers.lines for sock in lines]:
                each.close()


async def test_no_reader_is_started_after_the_seat_ended() -> None:
    async with readers_at() as (readers, _):
        readers.seat.end()
        with pytest.raises(DeskGone), anyio.fail_after(30):
            await readers.seat.ask("screen.shot")
        assert readers.lines == []


async def test_a_reader_that_starts_while_the_seat_ends_is_dismissed() -> None:
    async with readers_at() as (readers, _):
        readers.may_start = anyio.Event()

        async def ask() -> None:
            with pytest.raises(DeskGone), anyio.fail_after(30):
                await readers.seat.ask("screen.shot")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.1)
            readers.seat.end()
            readers.may_start.set()
        assert len(readers.lines) == readers.dismissed == 1
        assert await receive(readers.lines[0][0]) == b""


async def test_a_request_learns_that_the_desk_has_ended() -> None:
    async with readers_at() as (readers, desk):

        async def ask() -> None:
            with pytest.raises(DeskGone), anyio.fail_after(10):
                await readers.seat.ask("screen.shot")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.sleep(0.1)
            await readers.hear()
            await desk.burn()
            await readers.dial(1)
        with anyio.fail_after(10):
            while not readers.dismissed:
                await anyio.sleep(0.01)


async def test_every_dial_is_answered_also_one_too_many() -> None:
    async with readers_at() as (readers, _):
        await readers.seat.ensure_reader()
        await readers.dial(*range(1, AT_ONCE + 2))
        answers = [await readers.take() for _ in range(AT_ONCE + 1)]
        assert {each["dial"] for each in answers} == set(range(1, AT_ONCE + 2))
        assert sum("too many connections" in str(each.get("text")) for each in answers) == 1
