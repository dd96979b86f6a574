"""Tests of a connection's timeouts: each ends on time, whatever earlier timers were set."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from hotdesk.door.http.wire import TimedOutError, Wire


@pytest.fixture
async def ends() -> AsyncIterator[tuple[Wire, socket.socket]]:
    near, far = socket.socketpair()
    _, wire = await asyncio.get_running_loop().create_unix_connection(Wire, sock=near)
    yield wire, far
    wire.abort()
    far.close()
    await asyncio.sleep(0)


async def test_a_short_wait_after_a_long_one_is_short(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(60) == b"a"
    with pytest.raises(TimedOutError):
        await asyncio.wait_for(wire.read(0.02), 10)


async def test_a_long_wait_is_not_ended_by_the_alarm_of_a_short_one(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(0.05) == b"a"
    alarm = wire.alarm
    assert alarm is not None
    reading = asyncio.ensure_future(wire.read(60))
    while wire.alarm is alarm:  # until it rang and was set anew
        await asyncio.sleep(0.005)
    assert not reading.done()
    far.send(b"b")
    assert await reading == b"b"


async def test_a_connection_that_is_gone_leaves_no_alarm(ends: tuple[Wire, socket.socket]) -> None:
    wire, far = ends
    far.send(b"a")
    assert await wire.read(60) == b"a"
    far.close()
    assert await wire.read(60) == b""
    wire.abort()
    while not wire.lost:
        await asyncio.sleep(0)
    assert wire.alarm is None
