"""Tests of the tools that an owner lends over its control socket, at a desk without a wall."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest

from hotdesk.api.mcp.remote_tools import LentTools
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.control import ControlledRuntime, serve_control
from hotdesk.desk.owner.control_http import BODY_LIMIT
from hotdesk.desk.owner.remote import RemoteRuntime, remote_runtime
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime, local_runtime
from hotdesk.errors import BriefError, DeskGone, HostError
from hotdesk.event import Event
from hotdesk.hands.files import WRITTEN, Files
from hotdesk.hands.remote_tools import MAX_IMAGE_BYTES, Lending
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.tool import MAX_CALL_BYTES, Arguments, Hand, Observation, Tool

pytestmark = pytest.mark.anyio


class Failing:
    """A hand that fails as a machine without disk space does, or as a desk that has ended; or shows a huge picture."""

    tools: Sequence[Tool] = (Tool("fail", "Fail."), Tool("end", "Say that the desk is gone."), Tool("show", "Show."))

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        if tool == "show":
            return Observation("a picture", image=bytes(MAX_IMAGE_BYTES + 1), media="image/png", note="taken twice")
        raise HostError("the journal's disk is full") if tool == "fail" else DeskGone("the desk is gone")


def note(*events: Event) -> None:
    """Record nothing."""


async def make_toolbox(desk: LinkedDesk) -> Toolbox:
    await anyio.sleep(0.05)  # as long as looking for a screen takes
    hands: list[Hand] = [Shell(desk), Files(desk), Failing()]
    return Toolbox(hands, note, Free(), desk.id)


@asynccontextmanager
async def lending(
    folder: Path, make: Callable[[LinkedDesk], Awaitable[Toolbox]] = make_toolbox
) -> AsyncIterator[tuple[LocalRuntime, RemoteRuntime]]:
    """Serve desks without walls at a control socket; yield their owner, and another process's view of it."""
    async with local_runtime() as local:
        vars(local).update(calls=0, served=0)
        lent = Lending(make)
        served = serve_control(cast(ControlledRuntime, local), folder / "s", people=lambda route: lent)
        async with served, remote_runtime(folder / "s") as remote:
            yield local, remote


async def test_an_error_of_a_tool_is_told_as_what_it_is(tmp_path: Path) -> None:
    async with lending(tmp_path) as (local, remote):
        tools = LentTools(remote, (await local.open(Spec())).id)
        with pytest.raises(HostError, match="disk is full"):
            await tools.use("fail", {})
        with pytest.raises(DeskGone, match="the desk is gone"):
            await tools.use("end", {})
        assert (await tools.use("shell", {"command": "echo here"})).text.startswith("here")


async def test_first_calls_at_the_same_time_share_one_toolbox(tmp_path: Path) -> None:
    async with lending(tmp_path) as (local, remote):
        tools = LentTools(remote, (await local.open(Spec())).id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tools.use, "shell", {"command": "one=1"})
            tasks.start_soon(tools.use, "shell", {"command": "two=2"})
        assert (await tools.use("shell", {"command": "echo $one$two"})).text.startswith("12\n")


@pytest.mark.parametrize("letter", ["x", "é", "世", "\n"])
async def test_a_file_as_long_as_a_tool_accepts_can_be_sent(tmp_path: Path, letter: str) -> None:
    async with lending(tmp_path) as (local, remote):
        desk = await local.open(Spec())
        seen = await LentTools(remote, desk.id).use("file_create", {"path": "a", "content": letter * WRITTEN})
        assert seen.ok, seen.text
        assert (await desk.read("a")).decode() == letter * WRITTEN


async def test_only_tool_calls_may_be_large_and_not_without_limit(tmp_path: Path) -> None:
    async with lending(tmp_path) as (local, remote):
        desk = (await local.open(Spec())).id
        with pytest.raises(BriefError, match="too large"):
            await LentTools(remote, desk).use("file_create", {"path": "a", "content": "x" * MAX_CALL_BYTES})
        with pytest.raises(BriefError, match=f"more than {BODY_LIMIT} bytes"):
            await remote.call("POST", f"/desks/{desk}/pause", {"keep": "x" * BODY_LIMIT}, limit=MAX_CALL_BYTES)
        wrong = await LentTools(remote, desk).use("file_create", {"path": "a", "content": "\ud800"})
        assert "lone surrogate" in wrong.text


async def test_a_picture_that_is_too_large_is_left_out_with_a_reason(tmp_path: Path) -> None:
    async with lending(tmp_path) as (local, remote):
        seen = await LentTools(remote, (await local.open(Spec())).id).use("show", {})
        assert seen.ok
        assert seen.image == b""
        assert seen.note.startswith("taken twice\nThe picture was left out")
