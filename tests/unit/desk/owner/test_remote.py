"""Tests of how a caller reads its owner's answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import anyio
import pytest

from hotdesk.desk.owner.remote import read_answer
from hotdesk.linux.sockets import receive

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: hotdesk-stream\r\n\r\n"
SPOKEN = b"RFB 003.008\n"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


async def test_bytes_after_the_owners_answer_belong_to_the_stream(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    far.sendall(SWITCHED + SPOKEN)
    assert await read_answer(near) == (101, b"")
    assert await receive(near) == SPOKEN


async def test_an_answer_that_comes_in_pieces_is_read_to_its_end_and_no_further(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    told: list[tuple[int, bytes]] = []

    async def read() -> None:
        told.append(await read_answer(near))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        for piece in (SWITCHED[:-3], SWITCHED[-3:-1], SWITCHED[-1:] + SPOKEN):
            await anyio.sleep(0.01)
            far.sendall(piece)
    assert told == [(101, b"")]
    assert await receive(near) == SPOKEN


async def test_an_answer_with_a_body_is_read_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    far.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{}\r\n")
    assert await read_answer(near) == (200, b"{}\r\n")
