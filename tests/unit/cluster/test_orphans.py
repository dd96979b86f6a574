"""Tests of desks that a node burns because their server is absent."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import anyio
import pytest

from hotdesk.cluster.agent import NodeAgent, NodeControl
from hotdesk.cluster.names import new_node_id
from hotdesk.desk.seam import DeskId
from hotdesk.ipc.tasks import background

BURN_SECONDS = 0.05


class SlowMachine:
    """A tenant's machine on which burning a desk takes a while."""

    def __init__(self, count: int) -> None:
        self.desks = {new_node_id("n1"): object() for _ in range(count)}
        self.calls = self.served = 0

    def get_keeper_runtime(self) -> SlowMachine:
        return self

    async def burn(self, desk: DeskId) -> None:
        await anyio.sleep(BURN_SECONDS)
        del self.desks[desk]


@pytest.fixture
async def agent() -> AsyncIterator[NodeAgent]:
    async with background() as tasks:
        yield NodeAgent("n1", cast(Any, None), ssl.create_default_context(), tasks, cast(Any, None), cast(Any, print))


def place(agent: NodeAgent, server: str, count: int, tenant: str = "default") -> SlowMachine:
    machine = SlowMachine(count)
    agent.controls[server, tenant] = NodeControl(cast(Any, machine), agent.tasks, host=cast(Any, machine))
    agent.absent[server] = time.monotonic() - 100
    return machine


async def test_desks_of_a_server_that_comes_back_while_they_are_burnt_are_kept(agent: NodeAgent) -> None:
    machine = place(agent, "home", 60)
    agent.tasks.start(lambda: agent.burn_orphans(0.1))
    with anyio.fail_after(10):
        while len(machine.desks) == 60:
            await anyio.sleep(0.005)
    agent.listeners["home"] = [None]
    agent.absent.pop("home")
    await anyio.sleep(60 * BURN_SECONDS + 1)
    assert len(machine.desks) >= 20


async def test_desks_of_several_absent_servers_are_burnt_together(agent: NodeAgent) -> None:
    machines = [place(agent, server, 32) for server in ("home", "away")]
    agent.tasks.start(lambda: agent.burn_orphans(0.1))
    begun = time.monotonic()
    with anyio.fail_after(10):
        while any(machine.desks for machine in machines):
            await anyio.sleep(0.005)
    assert time.monotonic() - begun < 32 * BURN_SECONDS


async def test_desks_of_a_server_that_follows_the_reports_are_kept(agent: NodeAgent) -> None:
    there, gone = place(agent, "home", 3), place(agent, "away", 3)
    agent.listeners["home"] = [None]
    del agent.absent["home"]
    agent.tasks.start(lambda: agent.burn_orphans(0.1))
    await anyio.sleep(0.5)
    assert (len(there.desks), len(gone.desks)) == (3, 0)


async def test_an_agent_that_ends_burns_the_desks_of_servers_that_are_there(agent: NodeAgent) -> None:
    machine = place(agent, "home", 3)
    agent.listeners["home"] = [None]
    await agent.burn_desks()
    assert not machine.desks
