"""Tests of snapshots, rollbacks, halts and forks of another process's desk, through its owner's control socket."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.remote import RemoteRuntime, remote_runtime
from hotdesk.desk.seam import Desk, SnapshotId, Spec
from hotdesk.errors import BriefError, DeskError, DeskGone
from hotdesk.host import Host, borrow, control_path

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]


@asynccontextmanager
async def lent(settings: Config, spec: Spec | None = None) -> AsyncIterator[tuple[Desk, Desk]]:
    async with Host(settings) as host, host.open_desk(spec) as desk, borrow(settings, desk.id) as borrowed:
        yield desk, borrowed


@asynccontextmanager
async def elsewhere(settings: Config) -> AsyncIterator[tuple[Host, RemoteRuntime]]:
    async with Host(settings) as host, remote_runtime(control_path(settings, os.getpid())) as remote:
        yield host, remote


def listed(settings: Config) -> set[str]:
    return {str(told["id"]) for told in state.list_own_desks(settings)}


async def boot_id(desk: Desk) -> bytes:
    return await desk.read("/proc/sys/kernel/random/boot_id")


async def test_a_borrower_rolls_back_to_a_snapshot(settings: Config) -> None:
    async with lent(settings, Spec(root=True)) as (desk, borrowed):
        await borrowed.write("file", b"then")
        snapshot = await borrowed.snapshot()
        await desk.write("file", b"now")
        assert (await borrowed.run(["id", "-u"], user="root")).text == "0\n"
        boot = await boot_id(borrowed)
        process = await borrowed.start(["sleep", "1000"])
        await borrowed.rollback(snapshot)
        with pytest.raises(DeskGone):
            await process.wait()
        for each in (borrowed, desk):
            assert await each.read("file") == b"then"
            assert await boot_id(each) != boot
            assert (await each.run(["id", "-u"], user="root")).text == "0\n"
        await borrowed.forget(snapshot)
        with pytest.raises(BriefError):
            await desk.rollback(snapshot)


@pytest.mark.parametrize("snapshot", ["99", "", "x", "1 HTTP/1.1\r\nHost: y\r\n\r\n"])
async def test_a_borrowers_unknown_snapshot_changes_nothing(settings: Config, snapshot: str) -> None:
    async with lent(settings) as (desk, borrowed):
        boot = await boot_id(desk)
        process = await desk.start(["cat"])
        for call in (borrowed.rollback, borrowed.forget):
            with pytest.raises(BriefError):
                await call(SnapshotId(snapshot))
        if snapshot:
            with pytest.raises(BriefError):
                await borrowed.fork(2, SnapshotId(snapshot))
        await process.send(b"here")
        assert [data async for _, data in one(process.output())] == [b"here"]
        assert await boot_id(borrowed) == boot
        assert listed(settings) == {desk.id}


async def one(stream: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[tuple[str, bytes]]:
    yield await anext(stream)


async def test_a_borrower_halts_a_desk_and_starts_it_again(settings: Config) -> None:
    async with lent(settings) as (desk, borrowed):
        await desk.write("file", b"kept")
        boot = await boot_id(desk)
        await borrowed.pause(memory=False)
        assert (await borrowed.usage()).pids == 0
        done: list[bytes] = []

        async def read(each: Desk) -> None:
            done.append(await each.read("file"))

        async with anyio.create_task_group() as tasks:
            for each in (desk, borrowed):
                tasks.start_soon(read, each)
            await anyio.sleep(0.3)
            assert done == []
            await borrowed.resume()
        assert done == [b"kept", b"kept"]
        assert await boot_id(borrowed) != boot


async def test_a_desk_its_owner_halted_is_started_by_a_borrower(settings: Config) -> None:
    async with elsewhere(settings) as (host, remote), host.open_desk() as desk:
        await desk.pause(memory=False)
        await remote.get_handle(desk.id).boot()
        assert (await desk.run(["echo", "here"])).text == "here\n"


async def test_a_borrower_forks(settings: Config) -> None:
    async with elsewhere(settings) as (host, remote), host.open_desk() as desk:
        borrowed = await remote.find(desk.id)
        await borrowed.write("file", b"then")
        snapshot = await borrowed.snapshot()
        await borrowed.write("file", b"now")
        forks = [*await borrowed.fork(2), *await borrowed.fork(1, snapshot)]
        assert listed(settings) == {desk.id, *(fork.id for fork in forks)}
        assert [await fork.read("file") for fork in forks] == [b"now", b"now", b"then"]
        assert await (await host.find(forks[0].id)).read("file") == b"now"
        for fork in forks:
            await remote.burn(fork.id)
        assert listed(settings) == {desk.id}


@pytest.mark.parametrize("count", [0, -1, 1001])
async def test_a_borrower_cannot_fork_any_number(settings: Config, count: int) -> None:
    async with lent(settings) as (_, borrowed):
        with pytest.raises(BriefError):
            await borrowed.fork(count)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"1", b"{", b'{"count": true}', b'{"count": "2"}', b'{"count": 1, "snapshot": 7}', b"[" * 9999]
)
async def test_a_malformed_fork_request_is_refused(settings: Config, body: bytes) -> None:
    async with Host(settings) as host, host.open_desk() as desk:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            caller.connect(str(control_path(settings, os.getpid())))
            head = f"POST /desks/{desk.id}/forks HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            caller.send(head.encode() + body)
            with anyio.fail_after(10):
                await anyio.wait_readable(caller)
            assert caller.recv(100).startswith(b"HTTP/1.1 400 ")
        assert listed(settings) == {desk.id}


async def test_forks_whose_caller_left_are_burnt(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk() as desk:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(control_path(settings, os.getpid())))
            body = b'{"count": 3}'
            head = f"POST /desks/{desk.id}/forks HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            caller.send(head.encode() + body)
        with anyio.fail_after(30):
            while len(listed(settings)) < 2:
                await anyio.sleep(0.001)
            while listed(settings) != {desk.id}:
                await anyio.sleep(0.02)


async def test_a_disk_in_memory_has_no_snapshots_for_a_borrower(settings: Config) -> None:
    async with lent(settings, Spec(disk_in="memory")) as (_, borrowed):
        for call in (borrowed.snapshot, borrowed.fork):
            with pytest.raises(DeskError, match="disk is in memory"):
                await call()


async def test_snapshots_of_a_burnt_desk_are_refused(settings: Config) -> None:
    async with elsewhere(settings) as (host, remote):
        desk = await host.open()
        borrowed = await remote.find(desk.id)
        snapshot = await borrowed.snapshot()
        await host.burn(desk.id)
        for call in (borrowed.snapshot, borrowed.fork, lambda: borrowed.rollback(snapshot), borrowed.resume):
            with anyio.fail_after(15), pytest.raises(DeskGone):
                await call()
