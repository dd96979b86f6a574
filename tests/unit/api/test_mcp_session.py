"""Tests of an MCP client's desk: when it is opened, when it is burnt, and what the client is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, cast

import anyio
import pytest

from hotdesk.api.mcp.desk_limits import McpPolicy
from hotdesk.api.mcp.session import GONE, McpSession
from hotdesk.brief import CLOSED, Scope
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.seam import Desk, DeskId, Entry, Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime, local_runtime
from hotdesk.errors import DeskGone, HostError
from hotdesk.event import Event
from hotdesk.hands.files import Files
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.host import Host
from hotdesk.tool import Arguments, Observation, Tool

pytestmark = pytest.mark.anyio


class Losing:
    """A hand that says its desk is gone, as a caller does whose connection to the desk's owner was closed."""

    tools: Sequence[Tool] = (Tool("lose", "Lose the reply."),)

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        raise DeskGone("the process that owns the desk closed the connection")


def note(*events: Event) -> None:
    """Record nothing."""


class LocalHost:
    """Desks without a wall; their tools are ready, slow or not available."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self.runtime = runtime
        self.tools: Literal["ready", "slow", "failing"] = "ready"

    async def open(self, spec: Spec, scope: Scope = CLOSED) -> LinkedDesk:
        return await self.runtime.open(spec, scope)

    async def hands(self, desk: LinkedDesk) -> Toolbox:
        if self.tools == "slow":
            await anyio.sleep_forever()
        if self.tools == "failing":
            raise HostError("the journal's disk is full")
        return Toolbox([Files(desk), Losing()], note, Free(), desk.id)

    async def burn(self, desk: DeskId) -> None:
        await self.runtime.burn(desk)


@asynccontextmanager
async def session_at() -> AsyncIterator[tuple[LocalHost, McpSession]]:
    async with local_runtime() as runtime:
        host = LocalHost(runtime)
        yield host, McpSession(cast(Host, host), McpPolicy(Spec(), CLOSED), "user", "key mcp")


async def test_a_desk_whose_tools_are_not_available_is_burnt() -> None:
    async with session_at() as (host, session):
        host.tools = "failing"
        assert "disk is full" in (await session.use("file_view", {"path": "."})).text
        assert host.runtime.open_desks == {}
        host.tools = "slow"
        with anyio.move_on_after(0.5):
            await session.use("file_view", {"path": "."})
        assert host.runtime.open_desks == {}
        host.tools = "ready"
        assert (await session.use("file_view", {"path": "."})).ok
        assert len(host.runtime.open_desks) == 1


async def test_a_lost_reply_burns_no_desk() -> None:
    async with session_at() as (_, session):
        assert (await session.use("file_create", {"path": "work.txt", "content": "an hour of it"})).ok
        lost = await session.use("lose", {})
        assert not lost.ok
        assert "still exist" in lost.text
        seen = (await session.use("file_view", {"path": "work.txt"})).observation
        assert seen is not None
        assert "an hour of it" in seen.text


class Unclear:
    """A desk that does not reply, or whose reply cannot be read."""

    def __init__(self, *, replies: bool) -> None:
        self.replies = replies

    async def stat(self, path: str) -> Entry:
        if not self.replies:
            await anyio.sleep_forever()
        raise HostError("the reply is malformed")


@pytest.mark.slow
@pytest.mark.parametrize("replies", [True, False])
async def test_a_desk_is_not_said_to_exist_without_proof(replies: bool) -> None:
    async with session_at() as (_, session):
        await session.ensure_desk()
        desk = session.desk = cast(Desk, Unclear(replies=replies))
        lost = await session.use("lose", {})
        assert "could not be determined" in lost.text
        assert session.desk is desk


async def test_a_desk_that_ended_is_replaced_at_the_next_call() -> None:
    async with session_at() as (host, session):
        assert (await session.use("file_create", {"path": "a", "content": "1"})).ok
        await host.runtime.burn(next(iter(host.runtime.open_desks)))
        assert (await session.use("file_view", {"path": "a"})).text == GONE
        assert (await session.use("file_view", {"path": "."})).ok
        assert len(host.runtime.open_desks) == 1
