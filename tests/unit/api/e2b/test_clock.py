"""Tests of sandbox timeouts: the sandbox is killed or paused, whatever else happens to it at that moment."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b import clock
from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import DeskError

pytestmark = pytest.mark.anyio
ID = DeskId("i" + "0" * 20)


@dataclass
class Tenant:
    """A tenant and its machine."""

    name: str = "default"
    burnt: list[str] = field(default_factory=list)

    @property
    def host(self) -> Tenant:
        return self

    def has_ended(self, desk: DeskId) -> bool:
        """Return whether a desk ended by itself: none does here."""
        return False

    async def burn(self, desk: DeskId) -> None:
        self.burnt.append(desk)

    async def end(self, desk: DeskId) -> None:
        await self.burn(desk)


@dataclass
class Computer:
    """A desk that stops only after a number of tries."""

    tries: int = 1
    id: DeskId = ID

    async def pause(self, *, memory: bool) -> None:
        self.tries -= 1
        if self.tries > 0:
            raise DeskError("it is starting root's guest; try again")


@asynccontextmanager
async def ticking(sandbox: Sandbox) -> AsyncIterator[Sandboxes]:
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.add(sandbox)
        tasks.start_soon(clock.run, sandboxes)
        yield sandboxes
        tasks.cancel_scope.cancel()


def sandbox_of(tries: int = 1, **more: Any) -> Sandbox:
    now = time.time()
    desk = cast(Any, Computer(tries=tries))
    return Sandbox(desk, cast(Any, Tenant()), "base", Spec(), CLOSED, "token", now, now + 0.1, **more)


async def until_paused(sandbox: Sandbox) -> None:
    with anyio.fail_after(30):
        while sandbox.state != "paused" or sandbox.turning.locked():
            await anyio.sleep(0.005)


async def test_a_sandbox_that_does_not_stop_at_once_is_paused_and_gets_no_more_time() -> None:
    sandbox = sandbox_of(tries=3, auto_pause=True, timeout=300.0)
    async with ticking(sandbox):
        await until_paused(sandbox)
    assert sandbox.ends < time.time()
    assert sandbox.desk.tries == 0  # type: ignore[attr-defined]


async def test_a_sandbox_is_paused_once_no_other_operation_is_running() -> None:
    sandbox = sandbox_of(auto_pause=True)
    async with ticking(sandbox):
        async with sandbox.turning:
            with anyio.fail_after(30):
                while not sandbox.turning.statistics().tasks_waiting:
                    await anyio.sleep(0.005)
        await until_paused(sandbox)


async def test_a_sandbox_to_be_killed_does_not_wait() -> None:
    sandbox = sandbox_of()
    async with ticking(sandbox) as sandboxes, sandbox.turning:
        with anyio.fail_after(30):
            while sandboxes.by_id:
                await anyio.sleep(0.005)
    assert cast(Tenant, sandbox.tenant).burnt == [sandbox.id]


async def test_a_sandbox_extended_while_it_waits_to_be_paused_continues() -> None:
    sandbox = sandbox_of(auto_pause=True)
    async with ticking(sandbox) as sandboxes:
        async with sandbox.turning:
            with anyio.fail_after(30):
                while not sandbox.turning.statistics().tasks_waiting:
                    await anyio.sleep(0.005)
            await sandboxes.set_end(sandbox, 60)
        async with sandbox.turning:  # after the timeout had already selected it
            assert sandbox.state == "running"
