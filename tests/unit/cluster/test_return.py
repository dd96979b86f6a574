"""Tests of a server whose last node was lost a moment ago: opening a desk waits for it to return."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from socket import socket

import anyio
import pytest
from tests.conftest import settings_in

from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address, StaticNode
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.desk.seam import Spec
from hotdesk.errors import HostError
from hotdesk.ipc.tasks import Background, background


class RefusingDialer(NodeDialer):
    """The connection to a node that opens no desk."""

    async def dial(self) -> socket:
        raise HostError("asked, and refused")


@pytest.fixture
async def tasks() -> AsyncIterator[Background]:
    async with background() as found:
        yield found
        found.stop()


@pytest.fixture
def cluster(tmp_path: Path, tasks: Background) -> ClusterRuntime:
    nodes = Nodes([], ssl.create_default_context(), tasks, lambda e: None)
    return ClusterRuntime(settings_in(tmp_path), nodes, "acme", tasks)


def join(cluster: ClusterRuntime, tasks: Background) -> ClusterNode:
    report = NodeReport("n1", "0" * 32, 2, 1 << 30, 0, ("container",), ("base",), (), False, ())
    dialer = RefusingDialer(Address("127.0.0.1", 1), ssl.create_default_context(), tasks)
    return cluster.nodes.join(ClusterNode(report, dialer))


async def test_a_node_that_returns_is_asked(cluster: ClusterRuntime, tasks: Background) -> None:
    cluster.nodes.lose(join(cluster, tasks))

    async def rejoin() -> None:
        await anyio.sleep(0.3)
        join(cluster, tasks)

    tasks.start(rejoin)
    with pytest.raises(HostError, match="asked, and refused"):
        await cluster.open(Spec(image="base", wall="container"))


async def test_a_node_that_is_silent_is_waited_for(cluster: ClusterRuntime, tasks: Background) -> None:
    node = join(cluster, tasks)
    node.is_heard = False
    assert cluster.nodes.may_return()

    async def report() -> None:
        await anyio.sleep(0.3)
        node.is_heard = True

    tasks.start(report)
    with pytest.raises(HostError, match="asked, and refused"):
        await cluster.open(Spec(image="base", wall="container"))


@pytest.mark.slow
async def test_a_node_that_accepts_connections_and_does_not_answer_is_named(tasks: Background) -> None:
    logged: list[Exception] = []
    with socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        nodes = Nodes([], ssl.create_default_context(), tasks, logged.append)
        address = Address("127.0.0.1", mute.getsockname()[1])
        nodes.discoveries = [StaticNode(address)]
        tasks.start(lambda: nodes.follow(address))
        with anyio.fail_after(30):
            while not logged:
                await anyio.sleep(0.1)
        nodes.close()
    assert isinstance(logged[0], HostError)
    assert f"the node at {address} did not answer within 3 seconds" in str(logged[0])


async def test_no_node_is_waited_for_without_a_loss(cluster: ClusterRuntime) -> None:
    with anyio.fail_after(5), pytest.raises(HostError, match="no node responds"):
        await cluster.open(Spec(image="base", wall="container"))


@pytest.mark.slow
async def test_a_node_that_does_not_return_is_waited_for_in_vain(cluster: ClusterRuntime, tasks: Background) -> None:
    cluster.nodes.lose(join(cluster, tasks))
    with anyio.fail_after(30), pytest.raises(HostError, match="no node responds"):
        await cluster.open(Spec(image="base", wall="container"))
