"""Tests of calls to another process: each gets its own reply, no descriptor leaks, and all fail when it is gone."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.errors import DeskGone, HostError, KeeperError
from hotdesk.ipc.calls import Calls, Packet, PacketCalls, read_body

pytestmark = pytest.mark.anyio


class Client(PacketCalls):
    """Calls this test, and keeps the events it is sent."""

    peer = "the test"
    gone = "the test is gone"

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock, 0)
        self.events: list[Mapping[str, object]] = []

    def take(self, message: Mapping[str, object]) -> None:
        self.events.append(message)

    async def ask(self, timeout_s: float = 5.0) -> Packet:
        number = self.begin_call()
        return await self.call(number, self.send(json.dumps({"n": number}).encode()), timeout_s)


class Peer:
    """The other end, and a pipe of which it hands out one end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(30)
        self.read, self.write = os.pipe()

    async def receive(self) -> int:
        """Take a request; return its number."""
        data = await anyio.to_thread.run_sync(self.sock.recv, 4096)
        return int(json.loads(data)["n"])

    def reply(self, number: int, **message: object) -> None:
        socket.send_fds(self.sock, [json.dumps({"re": number, **message}).encode()], [self.write])

    async def send_event(self, client: Client) -> None:
        """Send an event, and wait until it is taken: then so is everything before it."""
        self.sock.send(b'{"event": "ended"}')
        with anyio.fail_after(30):
            while not client.events:
                await anyio.sleep(0.001)

    def is_only_holder(self) -> bool:
        """Close the end that was handed out, and say whether no other copy of it is open."""
        os.close(self.write)
        self.write = -1
        os.set_blocking(self.read, False)
        try:
            return os.read(self.read, 1) == b""
        except BlockingIOError:
            return False


@pytest.fixture
def peer() -> Iterator[tuple[socket.socket, Peer]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = Peer(theirs)
    yield ours, made
    for sock in (ours, theirs):
        sock.close()
    for fd in (made.read, made.write):
        if fd >= 0:
            os.close(fd)


@asynccontextmanager
async def running(ours: socket.socket) -> AsyncIterator[Client]:
    client = Client(ours)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.run)
        yield client
        tasks.cancel_scope.cancel()


async def test_each_call_gets_its_own_reply_whatever_their_order(peer: tuple[socket.socket, Peer]) -> None:
    replies: list[object] = []

    async def ask(client: Client) -> None:
        message, fds = await client.ask()
        os.close(*fds)
        replies.append(message["re"])

    async with running(peer[0]) as client, anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(ask, client)
        numbers = [await peer[1].receive() for _ in range(2)]
        for number in reversed(numbers):
            peer[1].reply(number)
    assert sorted(map(str, replies)) == sorted(map(str, numbers))


async def test_events_are_taken_beside_replies(peer: tuple[socket.socket, Peer]) -> None:
    async with running(peer[0]) as client:
        await peer[1].send_event(client)
        assert client.events == [{"event": "ended"}]


async def test_a_reply_whose_caller_was_cancelled_leaves_no_descriptor(peer: tuple[socket.socket, Peer]) -> None:
    async with running(peer[0]) as client:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.ask)
                number = await peer[1].receive()
                scope.cancel()
        peer[1].reply(number)
        await peer[1].send_event(client)
        assert peer[1].is_only_holder()


async def test_a_caller_cancelled_as_its_reply_comes_leaves_no_descriptor(peer: tuple[socket.socket, Peer]) -> None:
    async with running(peer[0]) as client:
        asking = asyncio.create_task(client.ask())
        peer[1].reply(await peer[1].receive())
        client._read(anyio.Event())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert peer[1].is_only_holder()


async def test_a_second_reply_to_a_call_leaves_no_descriptor(peer: tuple[socket.socket, Peer]) -> None:
    async with running(peer[0]) as client, anyio.create_task_group() as tasks:

        async def ask() -> None:
            os.close(*(await client.ask())[1])

        tasks.start_soon(ask)
        number = await peer[1].receive()
        peer[1].reply(number)
        peer[1].reply(number)
        await peer[1].send_event(client)
    assert peer[1].is_only_holder()


async def test_a_peer_that_is_gone_fails_the_calls_that_wait_and_those_that_come(
    peer: tuple[socket.socket, Peer],
) -> None:
    async with running(peer[0]) as client:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(KeeperError, match="the test is gone"):
                    await client.ask()

            tasks.start_soon(ask)
            await peer[1].receive()
            peer[1].sock.close()
        await ask()


async def test_a_silent_peer_is_waited_for_no_longer_than_allowed(peer: tuple[socket.socket, Peer]) -> None:
    async with running(peer[0]) as client:
        with pytest.raises(KeeperError, match="the test did not respond within 0 s"):
            await client.ask(0.05)


async def test_a_reply_that_came_before_the_failure_is_given() -> None:
    calls: Calls[str] = Calls()
    number = calls.begin_call()
    assert calls.resolve(number, "in time")
    calls.fail(KeeperError("too late"))
    assert await calls.call(number, None) == "in time"


@pytest.mark.parametrize(
    ("message", "error", "text"),
    [
        ({"error": {"code": "desk.gone", "text": "burnt"}}, DeskGone, "burnt"),
        ({"error": {"code": "elsewhere", "text": "why"}}, HostError, "why"),
        ({"ok": 1}, KeeperError, "unexpected reply from the test"),
        ({}, KeeperError, "unexpected reply from the test"),
    ],
)
def test_errors_cross_as_codes_of_a_fixed_table(message: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        read_body(message, "the test")
    assert type(caught.value) is error
