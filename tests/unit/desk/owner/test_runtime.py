"""Tests of a claim by an owner whose keeper and guest are scripted: what it waits for, and what ends the desk."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from hotdesk.brief import CLOSED
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner.keeper_client import KeeperClient
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import DeskGone
from hotdesk.ipc.tasks import background
from hotdesk_guest import wire

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


class Scripted:
    """A ready desk, its keeper, and its guest, which answers with `reply` once it may."""

    def __init__(self, tmp_path: Path) -> None:
        self.orders, keeper = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.guest, link = socket.socketpair()
        for sock in (self.orders, self.guest):
            sock.setblocking(False)
        self.keeper = KeeperClient(Started(keeper, os.getpid()))
        self.link = Link(link)
        self.config = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path)
        self.verbs: list[str] = []
        self.requests: list[object] = []
        self.reply: dict[str, object] = {}
        self.may_answer = anyio.Event()

    async def keep(self) -> None:
        """Do what the owner asks of its keeper, but leave claims without an answer."""
        while True:
            await anyio.wait_readable(self.orders)
            order = json.loads(self.orders.recv(1 << 16))
            self.verbs.append(order["verb"])
            if order["verb"] != "claim":
                self.orders.send(json.dumps({"re": order["n"], "ok": {}}).encode())

    async def serve(self) -> None:
        reader = wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        await self.may_answer.wait()
        while True:
            await anyio.wait_readable(self.guest)
            for kind, number, payload in reader.feed(self.guest.recv(1 << 16)):
                if kind == wire.OPEN:
                    self.requests.append(wire.decode(payload))
                    self.guest.sendall(wire.encode_frame(wire.REPLY, number, wire.encode(self.reply)))


@asynccontextmanager
async def ready(tmp_path: Path) -> AsyncIterator[tuple[Scripted, KeeperRuntime, LinkedDesk]]:
    script = Scripted(tmp_path)
    with script.orders, script.guest:
        async with background() as tasks, anyio.create_task_group() as others:
            runtime = KeeperRuntime(script.config, script.keeper, tasks)
            for work in (script.keep, script.serve, script.keeper.run, script.link.run):
                others.start_soon(work)
            number = new_id()
            handle = runtime.handles[number] = KeeperHandle(runtime, number, Spec(), CLOSED, "digest", 1)
            yield script, runtime, LinkedDesk(number, script.link, "/", handle, runtime.burn)
            others.cancel_scope.cancel()


async def become(found: Callable[[], object], wanted: object) -> None:
    with anyio.move_on_after(5):
        while found() != wanted:
            await anyio.sleep(0.001)
    assert found() == wanted


@pytest.mark.parametrize("spec", [Spec(), Spec(env={"ONE": "1"})], ids=["as it is", "variables"])
async def test_a_claim_of_the_same_size_waits_for_neither_keeper_nor_guest(tmp_path: Path, spec: Spec) -> None:
    async with ready(tmp_path) as (script, runtime, desk):
        with anyio.fail_after(5):
            assert await runtime.claim(desk, False, spec, CLOSED) is desk
        script.may_answer.set()
        await become(lambda: script.verbs, ["claim"])
        await become(lambda: script.requests, [{"op": "settle", "env": {"ONE": "1"}}] if spec.env else [])
        await become(lambda: desk.link.channels, {})
        assert desk.link.failure is None


@pytest.mark.parametrize("spec", [Spec(pids=77), Spec(root=True)], ids=["another size", "root"])
async def test_a_claim_that_may_fail_waits_for_the_keeper(tmp_path: Path, spec: Spec) -> None:
    async with ready(tmp_path) as (script, runtime, desk):
        with anyio.move_on_after(0.2) as scope:
            await runtime.claim(desk, False, spec, CLOSED)
        assert scope.cancelled_caught
        await become(lambda: script.verbs, ["claim", "burn"])


async def test_a_desk_whose_guest_refuses_its_variables_is_lost(tmp_path: Path) -> None:
    async with ready(tmp_path) as (script, runtime, desk):
        script.reply = {"error": "other", "text": "no"}
        await runtime.claim(desk, False, Spec(env={"ONE": "1"}), CLOSED)
        script.may_answer.set()
        await become(lambda: script.verbs, ["claim", "burn"])
        with pytest.raises(DeskGone, match="ended before it was used"):
            await desk.stat("/")
