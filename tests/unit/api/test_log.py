"""Tests of the server's log: a request that fails inside is one line, without what its error quotes."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
import uvicorn
from fastapi import FastAPI, WebSocket
from starlette.types import ASGIApp, Receive, Scope, Send
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from hotdesk.api.e2b.responses import make_refusal
from hotdesk.api.http.dispatch import Front, ServerParts
from hotdesk.api.http.metrics_middleware import Measured
from hotdesk.api.http.protocol import Protocol
from hotdesk.api.http.websocket import WebSocketProtocol
from hotdesk.api.keys import ApiKeys
from hotdesk.api.log import LOG
from hotdesk.api.native import problems
from hotdesk.api.native.access.browsers import Browsers
from hotdesk.api.native.metrics import Measures
from hotdesk.api.quotas import Quotas
from hotdesk.api.settings import Serving
from hotdesk.errors import HostError

SECRET = "hunter2-hunter2"
TEXT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ hotdesk: (.+) method=POST path=(\S+)\n")
REQUEST = {"type": "http", "method": "POST", "path": "/sandboxes"}


async def fail(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError(f"no such value: {SECRET}")


@pytest.fixture
def app(tmp_path: Path) -> Measured:
    native = FastAPI()
    problems.install(native)

    @native.post("/api/v1/broken")
    async def broken() -> None:
        raise RuntimeError(f"no such value: {SECRET}")

    @native.websocket("/api/v1/stream/{what}")
    async def stream(websocket: WebSocket, what: str) -> None:
        if what == "before":
            raise RuntimeError(f"no such value: {SECRET}")
        await websocket.accept()
        if what == "after":
            raise RuntimeError(f"no such value: {SECRET}")
        if what.isdecimal():
            for _ in range(int(what)):
                await websocket.send_bytes(bytes(60 << 10))
            return
        while True:
            await websocket.send_text(await websocket.receive_text())

    parts = ServerParts(fail, fail, fail, native, fail, fail)
    keys = ApiKeys(tmp_path)
    return Measured(Front(Serving(), parts, keys, Quotas(Serving().quota), Browsers(keys)), Measures())


@pytest.fixture
def as_json() -> Iterator[None]:
    LOG.as_json = True
    yield
    LOG.as_json = False


class Impatient(WebSocketProtocol):
    """Gives up on a client sooner, so that tests need not wait."""

    write_stall_s = 0.3


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[tuple[str, uvicorn.Server]]:
    """Serve an application as the server does; yield its address."""
    config = uvicorn.Config(app, http=Protocol, ws=Impatient, lifespan="off", log_config=None, access_log=False)
    server, listener = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)
    with listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"127.0.0.1:{listener.getsockname()[1]}", server
            finally:
                server.should_exit = server.force_exit = True


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_websocket_that_fails_is_one_line_without_the_text_of_its_error(
    app: Measured, when: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with served(app) as (address, _):
        if when == "before":
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"ws://{address}/api/v1/stream/{when}")
            assert refused.value.response.status_code == 500
        else:
            async with connect(f"ws://{address}/api/v1/stream/{when}") as stream:
                with pytest.raises(ConnectionClosedError) as closed:
                    await stream.recv()
                assert closed.value.rcvd is not None
                assert (closed.value.rcvd.code, SECRET in closed.value.rcvd.reason) == (1011, False)
    logged = capsys.readouterr().err
    place = rf"RuntimeError at \S+/test_log\.py:\d+ method=GET path=/api/v1/stream/{when}\n"
    assert re.fullmatch(r"\S+ hotdesk: " + place, logged) is not None, logged
    assert caplog.records == []


async def test_a_websocket_whose_client_leaves_is_no_error(
    app: Measured, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with served(app) as (address, server):
        async with connect(f"ws://{address}/api/v1/stream/echo") as stream:
            await stream.send("hello")
            assert await stream.recv() == "hello"
            stream.transport.abort()
        with anyio.fail_after(10):
            while server.server_state.tasks:
                await anyio.sleep(0.01)
    assert (capsys.readouterr().err, caplog.records) == ("", [])


async def test_a_refused_websocket_is_no_defect(
    app: Measured, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise anyone could fill the log."""
    async with served(app) as (address, _):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{address}/api/v1/stream/echo", additional_headers={"Host": "elsewhere"})
        assert refused.value.response.status_code in (400, 403)
        doubled = [("X-API-Key", "a"), ("X-API-Key", "b")]
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://{address}/api/v1/stream/echo", additional_headers=doubled)
        assert refused.value.response.status_code == 400
    assert (capsys.readouterr().err, caplog.records) == ("", [])


@pytest.mark.parametrize("count", [1000, 1], ids=["much is sent", "it was closed"])
async def test_a_websocket_whose_client_reads_nothing_is_cut(app: Measured, count: int) -> None:
    async with served(app) as (address, server):
        host, _, port = address.partition(":")
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 10)
            await anyio.to_thread.run_sync(client.connect, (host, int(port)))
            lines = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
            lines = [f"GET /api/v1/stream/{count} HTTP/1.1", f"Host: {address}", *lines]
            client.sendall("\r\n".join([*lines, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]).encode())
            with anyio.fail_after(10):
                while not any(isinstance(each, Impatient) for each in server.server_state.connections):
                    await anyio.sleep(0.01)
                while server.server_state.connections or server.server_state.tasks:
                    await anyio.sleep(0.02)


async def post(app: Measured, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        return await client.post(path, json={"password": SECRET}, params={"token": SECRET})


@pytest.mark.parametrize("path", ["/api/v1/broken", "/sandboxes"])
async def test_a_request_that_fails_is_one_line_without_the_text_of_its_error(
    app: Measured, path: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    told = await post(app, path)
    assert told.status_code == 500
    assert SECRET not in told.text
    logged = capsys.readouterr().err
    found = TEXT.fullmatch(logged)
    assert found is not None, logged
    assert re.fullmatch(r"RuntimeError at \S+/test_log\.py:\d+", found[1]) is not None, logged
    assert found[2] == path
    assert caplog.records == []  # a library would log a traceback


@pytest.mark.parametrize(
    ("error", "shown"),
    [(RuntimeError(SECRET), "RuntimeError at ?"), (HostError("no\nroom"), f"{HostError.code}: no\\nroom")],
)
def test_an_error_that_a_program_of_e2b_meets_is_logged_in_the_same_way(
    error: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SECRET not in str(make_refusal(error, REQUEST).body)
    logged = capsys.readouterr().err
    found = TEXT.fullmatch(logged)
    assert found is not None, logged
    assert (found[1], found[2]) == (shown, "/sandboxes")


@pytest.mark.usefixtures("as_json")
async def test_a_request_that_fails_is_one_line_of_json_on_request(
    app: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    await post(app, "/api/v1/broken")
    logged = capsys.readouterr().err
    told = json.loads(logged)
    assert told.keys() == {"time", "event", "message", "method", "path"}
    assert (told["event"], told["method"], told["path"]) == ("error", "POST", "/api/v1/broken")
    assert SECRET not in logged
