"""Tests of two joined sockets: bytes and ends go both ways, and nothing stays open without a caller."""

from __future__ import annotations

import socket

import anyio

from hotdesk.desk.link.lend import join
from hotdesk.linux.sockets import receive, send


def make_pair() -> tuple[socket.socket, socket.socket]:
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return pair


async def test_a_caller_that_first_ends_its_direction_and_then_leaves_is_noticed() -> None:
    """A server inside that neither answers nor closes does not keep the connection open."""
    (caller, theirs), (ours, inside) = make_pair(), make_pair()
    with anyio.fail_after(30), theirs, ours, inside:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join, theirs, ours)
            await send(caller, b"question")
            caller.shutdown(socket.SHUT_WR)
            assert [await receive(inside), await receive(inside)] == [b"question", b""]
            caller.close()


async def test_an_answer_arrives_after_the_end_of_the_question() -> None:
    (caller, theirs), (ours, inside) = make_pair(), make_pair()
    with anyio.fail_after(30), caller, theirs, ours, inside:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join, theirs, ours)
            caller.shutdown(socket.SHUT_WR)
            assert await receive(inside) == b""
            await anyio.sleep(0.6)
            await send(inside, b"answer")
            inside.shutdown(socket.SHUT_WR)
            assert [await receive(caller), await receive(caller)] == [b"answer", b""]
