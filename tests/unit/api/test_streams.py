"""Tests of desks' ports over WebSockets: both directions, their ends, and how many a tenant may have open."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from anyio.abc import TaskGroup
from fastapi import FastAPI
from starlette.websockets import WebSocket

from hotdesk.api.keys import ApiKeys
from hotdesk.api.native.access.auth import RequestContext
from hotdesk.api.native.context import Native
from hotdesk.api.native.desks import screens, streams
from hotdesk.api.native.desks.screens import MAX_VIEWS, count_view
from hotdesk.api.native.desks.streams import carry
from hotdesk.api.native.problems import ProblemError
from hotdesk.api.settings import Serving
from hotdesk.api.tenants import Tenant
from hotdesk.config import Config
from hotdesk.linux.sockets import receive, send

DESK = "i" + 20 * "0"


def make_context(folder: Path, tenant: str = "default") -> RequestContext:
    keys = ApiKeys(folder)
    caller = keys.find(keys.make("me", tenant))
    assert caller is not None
    native = Native(Serving(), keys, cast(Any, None), cast(Any, None), cast(Any, None))
    return RequestContext(native, caller, Tenant(tenant, Config(folder, folder, folder), cast(Any, None)))


class Caller:
    """The caller's side of a WebSocket, and the desk's side of the stream behind it."""

    def __init__(self, inside: socket.socket, context: RequestContext) -> None:
        self.inside, self.context = inside, context
        self.up, self.received = anyio.create_memory_object_stream[dict[str, Any]](100)
        self.sent, self.down = anyio.create_memory_object_stream[dict[str, Any]](100)
        self.ended = anyio.Event()
        self.is_whole = True

    async def run(self, sock: socket.socket) -> None:
        websocket = WebSocket({"type": "websocket"}, self.received.receive, self.sent.send)  # type: ignore[arg-type]
        await self.up.send({"type": "websocket.connect"})
        await websocket.accept()
        with sock:
            self.is_whole = await carry(websocket, sock, self.context)
        self.ended.set()

    async def send(self, data: bytes) -> None:
        await self.up.send({"type": "websocket.receive", "bytes": data})

    async def disconnect(self) -> None:
        await self.up.send({"type": "websocket.disconnect", "code": 1006})

    async def receive(self) -> bytes:
        while (message := await self.down.receive())["type"] != "websocket.send":
            pass
        return bytes(message["bytes"])


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    ours, inside = socket.socketpair()
    for end in (ours, inside):
        end.setblocking(False)
    found = Caller(inside, make_context(tmp_path))
    tasks: TaskGroup
    with inside, found.up, found.received, found.sent, found.down, anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(found.run, ours)
            yield found
            tasks.cancel_scope.cancel()


async def has_ended(caller: Caller) -> bool:
    with anyio.move_on_after(3):
        await caller.ended.wait()
    return caller.ended.is_set()


async def test_a_caller_that_ended_its_direction_and_disconnects_leaves_nothing_open(caller: Caller) -> None:
    """A server inside that neither answers nor closes does not keep the stream open."""
    await caller.send(b"question")
    await caller.send(b"")
    assert await receive(caller.inside) == b"question"
    assert await receive(caller.inside) == b""
    assert not caller.ended.is_set()
    await caller.disconnect()
    assert await has_ended(caller)


async def test_an_answer_arrives_after_the_end_of_the_question(caller: Caller) -> None:
    await caller.send(b"question")
    await caller.send(b"")
    assert [await receive(caller.inside), await receive(caller.inside)] == [b"question", b""]
    await send(caller.inside, b"answer")
    caller.inside.shutdown(socket.SHUT_WR)
    assert [await caller.receive(), await caller.receive()] == [b"answer", b""]
    assert await has_ended(caller)


async def test_a_question_goes_on_after_the_end_of_the_answers(caller: Caller) -> None:
    caller.inside.shutdown(socket.SHUT_WR)
    assert await caller.receive() == b""
    await caller.send(b"more")
    assert await receive(caller.inside) == b"more"
    await caller.send(b"")
    assert await has_ended(caller)


async def test_a_stream_that_the_desk_resets_is_not_complete(caller: Caller) -> None:
    await caller.send(b"question")
    with anyio.fail_after(3):
        await anyio.wait_readable(caller.inside)
    caller.inside.close()  # what was sent and is unread makes it a reset
    assert await has_ended(caller)
    assert not caller.is_whole


async def test_a_stream_that_is_cut_because_its_key_ended_is_not_complete(caller: Caller) -> None:
    await caller.send(b"question")
    assert await receive(caller.inside) == b"question"
    caller.context.native.keys.revoke(caller.context.caller.key)
    assert await has_ended(caller)
    assert not caller.is_whole


async def test_a_question_that_nobody_reads_after_a_complete_answer_is_no_break(caller: Caller) -> None:
    await send(caller.inside, b"answer")
    caller.inside.close()
    assert [await caller.receive(), await caller.receive()] == [b"answer", b""]
    await caller.send(b"question")
    await caller.send(b"more")
    assert await has_ended(caller)
    assert caller.is_whole


class OneDesk:
    """A tenant's machine with one desk, and the tenants of its server."""

    tenant: Tenant

    async def list_desks(self) -> list[dict[str, object]]:
        return [{"id": DESK, "image": "base", "state": "open", "wall": "container"}]

    def has_screen(self, name: str) -> bool:
        return False

    async def get_tenant(self, name: str) -> Tenant:
        return self.tenant


@pytest.mark.parametrize("route", ["screen", "terminal", "stream"])
async def test_one_view_too_many_is_refused_with_its_reason(tmp_path: Path, route: str) -> None:
    """A close code without accepting would reach the client as a bare 403."""
    keys, machine, app = ApiKeys(tmp_path), OneDesk(), FastAPI()
    machine.tenant = Tenant("default", Config(tmp_path, tmp_path, tmp_path), cast(Any, machine))
    app.state.native = Native(Serving(), keys, cast(Any, machine), cast(Any, None), cast(Any, None))
    app.state.native.views["default"] = MAX_VIEWS
    app.include_router(screens.router)
    app.include_router(streams.router)
    up, received = anyio.create_memory_object_stream[dict[str, Any]](1)
    sent, down = anyio.create_memory_object_stream[dict[str, Any]](9)
    headers = [(b"x-api-key", keys.make("me", "default").encode())]
    path = f"/desks/{DESK}/{route}"
    with up, received, sent, down, anyio.fail_after(10):
        await up.send({"type": "websocket.connect"})
        scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers}
        await app(scope, received.receive, cast(Any, sent.send))
        first = await down.receive()
        assert first["type"] == "websocket.accept", first
        closed = await down.receive()
    assert closed["code"] == 4429
    assert "are open already" in closed["reason"]
    assert app.state.native.views["default"] == MAX_VIEWS


def test_a_tenant_has_a_limited_number_of_open_views(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    other = RequestContext(context.native, context.caller, Tenant("other", context.tenant.settings, cast(Any, None)))
    with ExitStack() as stack:
        for _ in range(MAX_VIEWS):
            stack.enter_context(count_view(context))
        with pytest.raises(ProblemError, match="close some"), count_view(context):
            pass
        with count_view(other):
            pass
    with count_view(context):
        pass
