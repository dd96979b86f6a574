"""Tests of sandboxes whose desks resist burning."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest

from hotdesk.api.e2b.defaults import Defaults
from hotdesk.api.e2b.sandboxes import Sandbox, Sandboxes
from hotdesk.api.settings import Serving
from hotdesk.brief.data import CLOSED
from hotdesk.desk.seam import DeskId, Spec
from hotdesk.errors import HostError, KeeperError


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


@dataclass(frozen=True)
class Computer:
    """A desk that is only a name."""

    id: DeskId


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
