"""Tests of the nodes that a tenant of a server looks at for desks that killed jobs left."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio

from hotdesk.api.cluster_host import ClusterHost
from hotdesk.api.quotas import Quotas
from hotdesk.api.walls import TenantWalls
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.pull import PulledJournal
from hotdesk.cluster.report import NodeReport
from hotdesk.config import Config
from hotdesk.ipc.tasks import background

REPORT = NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), (), journals=())


class QuietHost(ClusterHost):
    """A host whose nodes have no events."""

    async def _try_to_pull(self, node: ClusterNode, journal: PulledJournal) -> int | None:
        return 0


async def test_a_lost_node_is_not_looked_at_until_it_returns(tmp_path: Path) -> None:
    looked_at: list[ClusterNode] = []

    async def burn_strays(node: ClusterNode) -> bool:
        looked_at.append(node)
        return True

    config = Config(run=tmp_path, lib=tmp_path, images=tmp_path)
    host = QuietHost(config, "default", Quotas(), TenantWalls(), cast(Nodes, None))
    host.cluster = cast(Any, SimpleNamespace(burn_strays=burn_strays))
    host.journals, host.followers = {}, {}
    first, second = (ClusterNode(REPORT, cast(Any, None)) for _ in range(2))
    async with background() as host.tasks:
        host.follow(first)
        await host.burn_new_strays()
        host.lose(first)
        await host.burn_new_strays()
        assert looked_at == [first]
        with anyio.fail_after(10):
            while host.followers:
                await anyio.sleep(0.01)
        host.note_events(first)
        host.follow(first)
        host.lose(first)
        host.follow(second)
        await anyio.sleep(0.1)
        await host.burn_new_strays()
        assert looked_at == [first, second], "the end of the lost agent's follower leaves that of the next"
        host.lose(second)
