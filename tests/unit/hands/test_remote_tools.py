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
from hotdesk.desk.owner.remote import RemoteRuntime, remote_runtime
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.local.runtime import LocalRuntime, local_runtime
from hotdesk.errors import DeskGone, HostError
from hotdesk.event import Event
from hotdesk.hands.remote_tools import Lending
from hotdesk.hands.shell import Shell
from hotdesk.hands.toolbox import Free, Toolbox
from hotdesk.tool import Arguments, Hand, Observation, Tool

pytestmark = pytest.mark.anyio


class Failing:
    """A hand that fails as a machine without disk space does, or as a desk that has ended."""

    tools: Sequence[Tool] = (Tool("fail", "Fail."), Tool("end", "Say that the desk is gone."))

    async def use(self, tool: str, arguments: Arguments) -> Observation:
        raise HostError("the journal's disk is full") if tool == "fail" else DeskGone("the desk is gone")


def note(*events: Event) -> None:
    """Record nothing."""


async def make_toolbox(desk: LinkedDesk) -> Toolbox:
    await anyio.sleep(0.05)  # as long as looking for a screen takes
    hands: list[Hand] = [Shell(desk), Failing()]
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
