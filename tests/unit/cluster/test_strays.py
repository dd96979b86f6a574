"""Tests of the desks that a server burns on a node because no process of it owns them."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from hotdesk.cluster.agent import NodeControl
from hotdesk.cluster.dialer import NodeDialer
from hotdesk.cluster.discovery import Address
from hotdesk.cluster.names import new_node_id
from hotdesk.cluster.nodes import ClusterNode, Nodes
from hotdesk.cluster.report import NodeReport
from hotdesk.cluster.runtime import ClusterRuntime
from hotdesk.config import Config
from hotdesk.desk.keeper.state import SCHEMA
from hotdesk.desk.owner.control import ControlledRuntime
from hotdesk.desk.owner.control_http import read_request
from hotdesk.desk.seam import DeskId
from hotdesk.ipc.tasks import Background, background

DEAD = "1-0123456789abcdef"


class DesksOnDisk:
    """The records of a node's desks, and which of them were burnt."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.calls = self.served = 0
        self.burnt: list[DeskId] = []

    def record(self, age: float = 0.0) -> DeskId:
        desk = new_node_id("n1")
        folder = self.config.run / "desks" / desk
        folder.mkdir(parents=True)
        (folder / "desk.json").write_text(
            json.dumps({"id": desk, "schema": SCHEMA, "state": "open", "opened": time.time() - age, "owner": 7})
        )
        return desk

    async def burn(self, desk: DeskId) -> None:
        self.burnt.append(desk)


class NearDialer(NodeDialer):
    """Connects to a node's control in this process."""

    def __init__(self, control: NodeControl, tasks: Background) -> None:
        super().__init__(Address("127.0.0.1", 1), ssl.create_default_context(), tasks)
        self.control = control

    async def dial(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self.tasks.start(lambda: self.answer(theirs))
        return ours

    async def answer(self, sock: socket.socket) -> None:
        with sock:
            request, body = await read_request(sock)
            parts = request.target.decode().strip("/").split("/")[2:]
            await self.control.answer(sock, request.method.decode(), parts, body)


@dataclass
class Room:
    """A server's view of one node."""

    desks: DesksOnDisk
    control: NodeControl
    cluster: ClusterRuntime
    node: ClusterNode


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    async with background() as tasks:
        desks = DesksOnDisk(Config(run=tmp_path / "node", lib=tmp_path / "lib", images=tmp_path))
        control = NodeControl(cast(ControlledRuntime, desks), tasks)
        dialer = NearDialer(control, tasks)
        nodes = Nodes([], dialer.context, tasks, print)
        node = nodes.join(ClusterNode(NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), ()), dialer))
        cluster = ClusterRuntime(Config(run=tmp_path / "home", lib=tmp_path, images=tmp_path), nodes, "default", tasks)
        yield Room(desks, control, cluster, node)


async def test_a_desk_that_is_just_being_opened_or_forked_is_no_stray(room: Room) -> None:
    desk = room.desks.record()
    await room.cluster.burn_strays(room.node)
    assert room.desks.burnt == []
    assert await room.cluster.list_desks() == []
    room.control.owners[desk] = room.cluster.owner
    assert not await room.cluster.burn_strays(room.node), "it need not be looked at again"
    assert room.desks.burnt == []
    assert [each["id"] for each in await room.cluster.list_desks()] == [desk]


async def test_a_desk_whose_opening_failed_and_that_could_not_be_burnt_is_a_stray(room: Room) -> None:
    """No opening or fork takes as long as this desk has been without an owner."""
    desk = room.desks.record(age=3600)
    await room.cluster.burn_strays(room.node)
    assert room.desks.burnt == [desk]


@pytest.mark.parametrize("owner", [DEAD, ""])
async def test_a_desk_of_a_process_that_ended_is_burnt(room: Room, owner: str) -> None:
    desk = room.desks.record()
    room.control.owners[desk] = owner
    room.control.note_forks(desk, [fork := room.desks.record()])
    assert await room.cluster.burn_strays(room.node), "burning may have failed"
    assert {*room.desks.burnt} == {desk, fork}


async def test_a_desk_that_is_still_expected_when_its_node_joins_late_is_no_stray(room: Room) -> None:
    desk = room.desks.record(age=3600)
    room.control.owners[desk] = DEAD
    del room.cluster.nodes.by_name["n1"]
    assert await room.cluster.settle([desk], 0.01) == {}
    room.cluster.nodes.join(room.node)
    await room.cluster.burn_strays(room.node)
    assert room.desks.burnt == []
    room.cluster.give_up(desk)
    await room.cluster.burn_strays(room.node)
    assert desk in room.desks.burnt


async def test_a_node_says_whether_it_has_a_desk(room: Room) -> None:
    calls = room.cluster.on(room.node)
    assert await calls.has_desk(room.desks.record())
    assert not await calls.has_desk(new_node_id("n1"))
