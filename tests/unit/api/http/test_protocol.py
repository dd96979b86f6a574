"""Tests of one HTTP/1.1 connection at a real listener."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.to_thread
import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from hotdesk.api.http.protocol import Protocol

SIZE = 64 << 20
DATA_SEGMENTS = slice(152, 156)
"""Where Linux's `struct tcp_info` has `tcpi_data_segs_in`."""


class Streams:
    """An application that streams, and cuts a stream at another request, as a call that kills a sandbox does."""

    def __init__(self) -> None:
        self.streaming, self.left = anyio.Event(), anyio.Event()
        self.reset: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream":
            self.reset = scope["extensions"]["hotdesk.reset"]
            self.streaming.set()
            await receive()  # the end of its request
            assert await receive() == {"type": "http.disconnect"}
            self.left.set()
        else:
            self.reset()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


async def test_a_connection_whose_client_has_left_is_cut_without_an_error() -> None:
    app = Streams()
    config = uvicorn.Config(app, http=Protocol, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))  # the server closes it
    port = listener.getsockname()[1]
    async with anyio.create_task_group() as tasks, httpx.AsyncClient() as client:
        tasks.start_soon(server.serve, [listener])
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await app.streaming.wait()
        await stream.aclose()
        with anyio.fail_after(30):
            await app.left.wait()
            while is_open(app.reset):
                await anyio.sleep(0.001)
        killed = await client.get(f"http://127.0.0.1:{port}/kill")
        server.should_exit = True
    assert killed.status_code == 204


def is_open(reset: Callable[[], None]) -> bool:
    """Return whether the socket of a connection is open."""
    connection = getattr(reset, "__self__")  # noqa: B009 - a bound method, by its type only a callable
    return bool(connection.transport.get_extra_info("socket").fileno() >= 0)


class Impatient(Protocol):
    """Gives up on a client sooner, so that tests need not wait."""

    write_stall_s = 0.5


class Sender:
    """An application that sends as many bytes as the query says.

    It leaves `/events` open after them, and sends those of `/whole` at once.
    """

    def __init__(self) -> None:
        self.ended = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = int(scope["query_string"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/whole":
            await send({"type": "http.response.body", "body": bytes(size)})
            return
        while size:
            piece = min(size, 1 << 20)
            size -= piece
            await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
        await receive()
        if scope["path"] == "/events":
            await receive()
        else:
            await send({"type": "http.response.body", "body": b"end"})
        self.ended.set()


class Unordered:
    """An application whose responses are followed at once by what the connection writes itself, or its new owner."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/taken":
            await receive()  # writes that the request may go on
            _, writer = scope["extensions"]["hotdesk.take"]()
            writer.write(b"taken")
            writer.close()
            return
        connection = getattr(scope["extensions"]["hotdesk.reset"], "__self__")  # noqa: B009 - as above
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        connection.data_received(b"no request\r\n\r\n")


@pytest.mark.parametrize(
    ("path", "first", "last"), [("/taken", b"HTTP/1.1 100 ", b"taken"), ("/wrong", b"HTTP/1.1 200 ", b"received.")]
)
async def test_what_a_response_wrote_comes_before_what_follows_it(path: str, first: bytes, last: bytes) -> None:
    config = uvicorn.Config(Unordered(), http=Protocol, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))  # the server closes it
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        async with await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1]) as stream:
            head = f"POST {path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
            await stream.send(f"{head}x".encode())
            found = b""
            with anyio.fail_after(10), suppress(anyio.EndOfStream):
                while True:
                    found += await stream.receive()
        server.should_exit = True
    assert found.startswith(first)
    assert found.endswith(last)


@asynccontextmanager
async def sending(request: str) -> AsyncIterator[tuple[Sender, uvicorn.Server, socket.socket]]:
    """Send a request to a `Sender`; yield it, its server, and a connection with small buffers on both sides."""
    app = Sender()
    config = uvicorn.Config(app, http=Impatient, lifespan="off", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)
    with listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            await anyio.to_thread.run_sync(client.connect, listener.getsockname())
            client.settimeout(10)
            client.sendall(f"GET {request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            try:
                yield app, server, client
            finally:
                client.close()
                server.should_exit = server.force_exit = True


@pytest.mark.parametrize("size", [48 << 10, SIZE], ids=["the rest of it is buffered", "large"])
@pytest.mark.parametrize("closes", ["", "&Connection: close"], ids=["kept", "closed"])
async def test_a_client_that_reads_nothing_is_cut(size: int, closes: str) -> None:
    end = "\r\n".join([f"/?{size} HTTP/1.1", "Connection: close", "X: "]) if closes else f"/?{size}"
    async with sending(end) as (_, server, client):
        with anyio.fail_after(10):
            while not server.server_state.total_requests and not server.server_state.connections:
                await anyio.sleep(0.01)
            while server.server_state.connections:
                await anyio.sleep(0.05)
        with pytest.raises(ConnectionResetError):
            await anyio.to_thread.run_sync(read_all, client)


@pytest.mark.parametrize("left", [200 << 10, 10 << 10], ids=["most is left", "little is left"])
async def test_a_client_that_stops_reading_a_complete_response_is_cut(left: int) -> None:
    async with sending(f"/whole?{400 << 10}") as (_, server, client):
        while not server.server_state.total_requests:
            await anyio.sleep(0.01)
        [connection] = server.server_state.connections
        while connection.transport.get_write_buffer_size() > left:
            await anyio.to_thread.run_sync(client.recv, 1 << 10)
        assert connection.transport.get_write_buffer_size() > 0
        with anyio.fail_after(10):
            while server.server_state.connections:
                await anyio.sleep(0.05)
        with pytest.raises(ConnectionResetError):
            await anyio.to_thread.run_sync(read_all, client)


def read_all(client: socket.socket, pause: float = 0.0) -> int:
    size = 0
    while data := client.recv(8 << 10):
        size += len(data)
        time.sleep(pause)
        if data.endswith(b"end\r\n0\r\n\r\n"):
            break
    return size


def count_segments(client: socket.socket) -> int:
    """Read a response to its end; return in how many segments it came."""
    data = b""
    while not data.endswith(b"\r\n0\r\n\r\n"):
        data += client.recv(8 << 10)
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGMENTS.stop)
    return int.from_bytes(info[DATA_SEGMENTS], sys.byteorder)


@pytest.mark.parametrize("path", ["/whole", "/"], ids=["head and body", "stream"])
async def test_what_a_response_writes_in_one_turn_is_sent_at_once(path: str) -> None:
    async with sending(f"{path}?100") as (_, _server, client):
        assert await anyio.to_thread.run_sync(count_segments, client) == 1


async def test_a_client_that_reads_slowly_is_not_cut() -> None:
    async with sending(f"/?{1 << 20}") as (_, _server, client):
        assert await anyio.to_thread.run_sync(read_all, client, 0.02) > 1 << 20


async def test_a_stream_that_has_nothing_to_send_stays_open() -> None:
    async with sending("/events?100") as (app, server, client):
        await anyio.to_thread.run_sync(client.recv, 4096)
        await anyio.sleep(3 * Impatient.write_stall_s)
        assert server.server_state.connections
        assert not app.ended.is_set()
