"""Tests of sandboxes whose desks cannot be burnt or paused."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from e2b import ServiceBusyException
from e2b.api import handle_api_exception

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import DeskError, HostError, KeeperError


@dataclass
class Stubborn:
    """A tenant and its machine, whose desks resist burning."""

    error: Exception
    name: str = "default"
    own_runtime: object = None
    burnt: list[str] = field(default_factory=list)

    @property
    def host(self) -> Stubborn:
        return self

    async def burn(self, desk: DeskId) -> None:
        self.burnt.append(desk)
        raise self.error

    async def end(self, desk: DeskId) -> None:
        await self.burn(desk)

    def has_ended(self, desk: DeskId) -> bool:
        return False


@dataclass(frozen=True)
class Computer:
    """A desk that is only a name."""

    id: DeskId

    async def run(self, argv: list[str]) -> None:
        raise DeskError("no program can be started")

    async def pause(self, *, memory: bool) -> None:
        raise DeskError("it does not stop")


@pytest.mark.parametrize("error", [HostError("it resists"), KeeperError("no answer"), PermissionError("not ours")])
async def test_a_sandbox_whose_desk_resists_is_removed_and_the_operator_informed(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    tenant = Stubborn(error)
    desk = Computer(DeskId("i" + "0" * 20))
    now = time.time()
    sandbox = Sandbox(cast(Any, desk), cast(Any, tenant), "base", Spec(), CLOSED, "token", now, now + 60)
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.add(sandbox)
        await sandboxes.kill(sandbox)
        await sandboxes.kill(sandbox)
    assert (sandboxes.by_id, tenant.burnt) == ({}, [desk.id])
    assert "hotdesk: " in capsys.readouterr().err


@pytest.mark.parametrize("healthy", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_a_sandbox_that_cannot_be_paused_is_neither_reported_as_paused_nor_as_in_need_of_a_reboot(
    healthy: bool,
) -> None:
    now = time.time()
    desk, tenant = Computer(DeskId("i" + "0" * 20)), Stubborn(HostError("unused"))
    sandbox = Sandbox(cast(Any, desk), cast(Any, tenant), "base", Spec(), CLOSED, "token", now, now + 60)
    async with anyio.create_task_group() as tasks:
        sandboxes = Sandboxes(Serving(), tasks, Defaults(CLOSED, {}))
        sandboxes.add(sandbox)
        with pytest.raises(E2bError, match="not paused") as refused:
            await sandboxes.pause(sandbox, memory=True, healthy=healthy)
    answer = refused.value.make_response()
    received = SimpleNamespace(status_code=answer.status_code, content=answer.body)
    assert isinstance(handle_api_exception(received), ServiceBusyException)
    assert sandbox.state == "running"
