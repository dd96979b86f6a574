"""Tests that a desk whose programs are copied works afterwards, or says why not: no later call waits for ever."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from hotdesk.brief.data import Scope
from hotdesk.desk.link.channel import Body
from hotdesk.desk.link.link import Link
from hotdesk.desk.owner import memory
from hotdesk.desk.owner.keeper_handle import KeeperHandle
from hotdesk.desk.request import KeeperRequest
from hotdesk.desk.seam import Spec, new_id
from hotdesk.errors import DeskError, DeskGone, HotdeskError
from hotdesk_guest import wire

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]

GREETING = {"version": wire.VERSION, "home": "/home/user"}
PATIENCE_S = 0.3


class Guest:
    """A guest that answers every request, and connects again with its token if it `returns`."""

    def __init__(self, sock: socket.socket, path: str) -> None:
        self.path = path
        self.returns = True
        self.reply: dict[str, object] = {}
        """Its reply to `rejoin`."""
        self.requests: list[object] = []
        self.take(sock)

    def take(self, sock: socket.socket, **greeting: object) -> None:
        sock.setblocking(False)
        self.sock, self.reader = sock, wire.FrameReader(wire.HOST_KINDS, wire.HOST_LIMIT)
        sock.sendall(wire.encode_frame(wire.HELLO, 0, wire.encode({**GREETING, **greeting})))

    async def run(self) -> None:
        while True:
            await anyio.wait_readable(self.sock)
            data = self.sock.recv(65536)
            if not data:
                return
            for kind, number, payload in self.reader.feed(data):
                if kind == wire.OPEN:
                    self.answer(number, cast("dict[str, object]", wire.decode(payload)))

    def answer(self, number: int, request: dict[str, object]) -> None:
        self.requests.append(request["op"])
        reply = self.reply if request["op"] == "rejoin" else {}
        self.sock.sendall(wire.encode_frame(wire.REPLY, number, wire.encode(reply)))
        if request["op"] == "park":
            self.sock.close()
            self.sock = socket.socket(socket.AF_UNIX)
            if self.returns:
                self.sock.connect(self.path)
                self.take(self.sock, token=request["token"])
            else:
                self.sock.connect(self.path)  # and says nothing


class Runtime:
    """A scripted keeper and its owner's runtime."""

    def __init__(self, path: str) -> None:
        self.keeper = self
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.saved: dict[str, object] = {
            "failure": "", "snapshot": "s1", "caller": os.getpid(), "uid": os.getuid(), "start_seconds": 15.0,
        }  # fmt: skip
        self.patience: object = None
        """Seconds that the owner last allowed a guest to connect."""
        self.ended: dict[str, str] = {}
        self.opened: list[object] = []
        self.desks: dict[str, object] = {}
        self.note = print
        self.verbs: list[str] = []

    async def ask(self, request: KeeperRequest, descriptors: int = 0, seconds: float = 0) -> tuple[Body, list[int]]:
        await anyio.lowlevel.checkpoint()
        self.verbs.append(request.verb)
        saves = request.verb in ("checkpoint", "hibernate")
        return (self.saved, [os.dup(self.listener.fileno())]) if saves else ({}, [])

    async def stop_waiting(self, desk: str, body: Body, root: bool, scope: anyio.CancelScope) -> None:
        self.patience = body["start_seconds"]
        await anyio.sleep(PATIENCE_S)
        scope.cancel()

    async def begin(self, *_: object, **__: object) -> object:
        raise DeskError("the fork did not start")

    async def burn(self, desk: str) -> None:
        raise HotdeskError("it cannot be burnt either")


class Handle:
    """What forking needs of a desk's handle."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.desk = new_id()
        self.spec, self.scope = Spec(wall="gvisor"), None
        self.rising = anyio.Lock()
        self.roots = None

    async def forget(self, snapshot: str) -> None:
        await self.runtime.ask(KeeperRequest("forget", self.desk, snapshot=snapshot))


class Origin:
    """A desk that is forked while its programs run."""

    def __init__(self, link: Link, guest: Guest, runtime: Runtime) -> None:
        self.link = link
        self.guest = guest
        self.runtime = runtime
        self.handle = cast(Any, Handle(runtime))

    async def fork(self, count: int = 1) -> None:
        with anyio.fail_after(10):
            await memory.fork(self.handle, self.link, count)

    async def call(self) -> None:
        """Make a request of the guest. It must not wait for ever."""
        with anyio.fail_after(30):
            channel = await self.link.open({"op": "stat"})
            await channel.receive()


@pytest.fixture
async def parent(tmp_path: Path) -> AsyncIterator[Origin]:
    async with opened(str(tmp_path / "link.sock")) as found:
        yield found


@asynccontextmanager
async def opened(path: str) -> AsyncIterator[Origin]:
    ours, theirs = socket.socketpair()
    runtime, link, guest = Runtime(path), Link(ours), Guest(theirs, path)
    with runtime.listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(link.run)
            tasks.start_soon(guest.run)
            await link.wait_for_hello()
            yield Origin(link, guest, runtime)
            link.hang_up()
            tasks.cancel_scope.cancel()
    guest.sock.close()


async def test_the_origin_continues_when_a_fork_fails(parent: Origin) -> None:
    with pytest.raises(DeskError, match="the fork did not start"):
        await parent.fork()
    await parent.call()
    assert parent.runtime.verbs == ["may_save", "checkpoint", "forget"]
    assert parent.runtime.patience == 60.0


async def test_calls_fail_if_the_guest_does_not_come_back(parent: Origin) -> None:
    parent.guest.returns = False
    with pytest.raises(DeskError, match="did not"):
        await parent.fork()
    with pytest.raises(DeskGone, match="did not resume"):
        await parent.call()


async def test_calls_fail_if_the_guest_refuses_to_continue(parent: Origin) -> None:
    parent.guest.reply = {"error": "EPERM", "text": "never"}
    with pytest.raises(DeskError):
        await parent.fork()
    with pytest.raises(DeskError, match="never"):
        await parent.call()


async def test_calls_fail_if_the_memory_was_not_saved_and_the_guest_does_not_come_back(parent: Origin) -> None:
    parent.guest.returns = False
    parent.runtime.saved["failure"] = "the disk is full"
    with pytest.raises(DeskGone, match="did not resume"):
        await parent.fork()
    with pytest.raises(DeskGone, match="did not resume"):
        await parent.call()


async def test_calls_fail_if_the_keepers_reply_is_malformed(parent: Origin) -> None:
    del parent.runtime.saved["failure"]
    with pytest.raises(KeyError):
        await parent.fork()
    with pytest.raises(DeskGone):
        await parent.call()


async def test_a_failed_save_leaves_the_desk_running(parent: Origin) -> None:
    parent.runtime.saved["failure"] = "the disk is full"
    with pytest.raises(DeskError, match="the disk is full"):
        await parent.fork()
    await parent.call()


async def test_a_fork_that_is_cancelled_leaves_the_desk_running(parent: Origin) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await parent.fork()
    await parent.call()


@pytest.mark.parametrize("paused", [False, True])
async def test_a_kernel_of_a_desks_own_writes_its_files_out_before_hibernation(parent: Origin, paused: bool) -> None:
    """A hibernated desk can be halted, or a snapshot of it used, without its memory."""
    handle = KeeperHandle(cast(Any, parent.runtime), new_id(), Spec(wall="microvm"), Scope(), "", 0)
    handle.has_own_kernel = True
    parent.runtime.desks[handle.desk] = SimpleNamespace(link=parent.link)
    if paused:
        await handle.pause(True)
        parent.guest.requests.clear()
    await memory.hibernate(handle, parent.link)
    assert parent.guest.requests == ["sync", "park"]
