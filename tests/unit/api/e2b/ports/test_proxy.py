"""Tests of upgraded connections to a port inside: a reset is passed on, and a client that reads nothing is cut."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from hotdesk.api.e2b.ports.headers import build_inward_request
from hotdesk.api.e2b.ports.proxy import Passing
from hotdesk.api.http.protocol import Protocol

HOST = f"8000-i{'a' * 20}.localhost"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
REQUEST = (
    f"GET /ws HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
).encode()
SWITCH = (
    f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
).encode()
RESET = struct.pack("ii", 1, 0)


class Impatient(Protocol):
    """Gives up on a client sooner, so that tests need not wait."""

    write_stall_s = 0.3


@dataclass
class Switched:
    """An upgraded connection: the caller's end, the end of the server inside, and the server between them."""

    caller: socket.socket
    inside: socket.socket
    server: uvicorn.Server

    async def wait_until_closed(self) -> None:
        with anyio.fail_after(10):
            while self.server.server_state.connections:
                await anyio.sleep(0.02)


@asynccontextmanager
async def switched() -> AsyncIterator[Switched]:
    inner = socket.create_server(("127.0.0.1", 0))
    outer = socket.create_server(("127.0.0.1", 0))
    outer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with socket.create_connection(inner.getsockname()) as sock:
            sock.setblocking(False)
            cuts = scope["extensions"]
            request = build_inward_request(scope, None)
            await Passing(request, sock, receive, send, cuts["hotdesk.take"], cuts["hotdesk.reset"]).run()

    config = uvicorn.Config(app, http=Impatient, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    with inner, outer, socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [outer])
            await anyio.to_thread.run_sync(caller.connect, outer.getsockname())
            caller.settimeout(10)
            caller.sendall(REQUEST)
            inside, _ = await anyio.to_thread.run_sync(inner.accept)
            with inside:
                inside.settimeout(10)
                await anyio.to_thread.run_sync(inside.recv, 4096)
                inside.sendall(SWITCH + b"hello")
                got = b""
                while not got.endswith(b"hello"):
                    got += await anyio.to_thread.run_sync(caller.recv, 4096)
                assert got.startswith(b"HTTP/1.1 101"), got
                try:
                    yield Switched(caller, inside, server)
                finally:
                    caller.close()
                    server.should_exit = server.force_exit = True


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


def read_all(sock: socket.socket) -> bytes:
    found = b""
    while data := sock.recv(64 << 10):
        found += data
    return found


async def test_a_reset_by_the_server_inside_is_a_reset_for_the_caller() -> None:
    async with switched() as stream:
        reset(stream.inside)
        with pytest.raises(ConnectionResetError):
            await anyio.to_thread.run_sync(stream.caller.recv, 4096)


async def test_a_reset_by_the_caller_is_a_reset_for_the_server_inside() -> None:
    async with switched() as stream:
        reset(stream.caller)
        with pytest.raises(ConnectionResetError):
            await anyio.to_thread.run_sync(stream.inside.recv, 4096)


async def test_a_caller_that_is_gone_after_its_orderly_end_is_no_reset_for_the_server_inside() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        caller = socket.create_connection(listener.getsockname())
        reader, writer = await asyncio.open_connection(sock=listener.accept()[0])
    caller.shutdown(socket.SHUT_WR)
    assert await reader.read() == b""
    reset(caller)
    ours, inside = socket.socketpair()
    ours.setblocking(False)
    with ours, inside, anyio.fail_after(10):
        inside.sendall(bytes(1 << 10))
        nothing: Any = None
        passing = Passing(nothing, ours, nothing, nothing, nothing, nothing)
        with anyio.CancelScope() as scope:
            await passing.relay_out(reader, writer, scope)
    writer.close()
    assert scope.cancel_called
    assert not passing.broken


async def test_an_end_is_no_reset() -> None:
    async with switched() as stream:
        stream.inside.sendall(b"bye")
        stream.inside.close()
        assert await anyio.to_thread.run_sync(read_all, stream.caller) == b"bye"


@pytest.mark.parametrize("size", [20 << 20, 60 << 10], ids=["the server inside waits", "the rest of it is buffered"])
async def test_a_caller_that_reads_nothing_is_cut(size: int) -> None:
    async with switched() as stream:
        stream.inside.settimeout(0.2)
        with suppress(TimeoutError):
            stream.inside.sendall(bytes(size))
            stream.inside.close()
        await stream.wait_until_closed()
        with pytest.raises(ConnectionResetError):
            await anyio.to_thread.run_sync(read_all, stream.caller)


async def test_a_stream_that_has_nothing_to_send_stays_open() -> None:
    async with switched() as stream:
        await anyio.sleep(4 * Impatient.write_stall_s)
        stream.inside.sendall(b"still here")
        assert await anyio.to_thread.run_sync(stream.caller.recv, 4096) == b"still here"
