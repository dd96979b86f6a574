"""Tests of one HTTP/1.1 connection at a real listener."""

from __future__ import annotations

import socket
from collections.abc import Callable

import anyio
import anyio.to_thread
import httpx
import uvicorn
from starlette.types import Receive, Scope, Send

from hotdesk.api.http.protocol import Protocol


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
