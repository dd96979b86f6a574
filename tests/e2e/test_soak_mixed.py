"""Test of two thousand random operations on desks, with killed owners and keepers: nothing is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.owner.runtime import KeeperRuntime, bury
from hotdesk.desk.seam import Desk, SnapshotId, Spec
from hotdesk.errors import DeskGone, HotdeskError
from hotdesk.host import Host
from tests.e2e.test_recovery import layers
from tests.leftovers import claims, things

pytestmark = [pytest.mark.container, pytest.mark.long, pytest.mark.timeout(3600)]

CYCLES = 2000
EDGE = CYCLES // 8
"""Cycles after which everything has been used once, and descriptors are counted."""
MOST = 5
"""Desks that are open at a time."""
EVERY = 20
"""Cycles between two owners that are killed."""
OWNER = """
import anyio, random, sys
from pathlib import Path
from hotdesk.config import MIB, Config
from hotdesk.desk.seam import Spec
from hotdesk.host import Host

async def main():
    chance = random.Random(int(sys.argv[4]))
    settings = Config(run=Path(sys.argv[1]), lib=Path(sys.argv[2]), images=Path(sys.argv[3]), disk=sys.argv[5])
    async with Host(settings, control=False) as host:
        host.keep_ready(Spec(memory=256 * MIB), 2)
        print(host.runtime.keeper.pid, flush=True)
        while True:
            async with host.open_desk(Spec(memory=256 * MIB, root=chance.random() < 0.3)) as desk:
                snapshot = await desk.snapshot()
                await desk.run(["sh", "-c", "head -c 1000000 /dev/urandom >file"])
                forks = await desk.fork(2)
                await desk.rollback(snapshot)
                await desk.pause(memory=False)
                await forks[0].pause()
                await host.burn(forks[1].id)
                await host.burn(forks[0].id)

anyio.run(main)
"""


class Crowd:
    """Some desks, and the operations that may happen to one."""

    def __init__(self, host: Host, settings: Config, chance: random.Random) -> None:
        self.host = host
        self.settings = settings
        self.chance = chance
        self.desks: list[Desk] = []
        self.kept: dict[str, list[tuple[SnapshotId, bytes]]] = {}
        """Snapshots by desk, and the content of `file` in them."""
        self.holds: dict[str, bytes] = {}

    async def step(self) -> None:
        """Do one operation; only operations on a desk that was killed may fail."""
        acts = [self.open, self.open, self.burn, self.write, self.write, self.snapshot, self.snapshot, self.rollback]
        acts += [self.fork, self.forget, self.pause, self.halt, self.kill, self.give_up]
        act = self.chance.choice(acts) if self.desks else self.open
        with anyio.fail_after(60):
            await act()

    def some(self) -> Desk:
        return self.chance.choice(self.desks)

    def forgotten(self, desk: Desk) -> None:
        self.desks.remove(desk)
        self.kept.pop(desk.id, None)
        self.holds.pop(desk.id, None)

    async def open(self) -> None:
        if len(self.desks) >= MOST:
            await self.burn()
        memory = self.chance.choice((128, 256, 512)) * MIB
        tenant = self.chance.choice(("", "", "", "other"))
        self.desks.append(await self.host.open(Spec(memory=memory, root=self.chance.random() < 0.3, tenant=tenant)))
        self.holds[self.desks[-1].id] = b""
        assert (await self.desks[-1].run(["true"])).ok

    async def burn(self) -> None:
        desk = self.some()
        self.forgotten(desk)
        await self.host.burn(desk.id)

    async def write(self) -> None:
        desk, data = self.some(), self.chance.randbytes(self.chance.randrange(200_000))
        await desk.write("file", data)
        self.holds[desk.id] = data

    async def snapshot(self) -> None:
        desk = self.some()
        self.kept.setdefault(desk.id, []).append((await desk.snapshot(), self.holds[desk.id]))

    async def rollback(self) -> None:
        desk = self.some()
        if kept := self.kept.get(desk.id):
            snapshot, data = self.chance.choice(kept)
            await desk.rollback(snapshot)
            self.holds[desk.id] = data
            assert not data or await desk.read("file") == data

    async def forget(self) -> None:
        desk = self.some()
        if kept := self.kept.get(desk.id):
            await desk.forget(kept.pop(self.chance.randrange(len(kept)))[0])

    async def fork(self) -> None:
        desk = self.some()
        while len(self.desks) > MOST - 2:
            await self.burn()
        if desk in self.desks:
            for fork in await desk.fork(2):
                self.desks.append(fork)
                self.holds[fork.id] = self.holds[desk.id]
                assert not self.holds[desk.id] or await fork.read("file") == self.holds[desk.id]

    async def pause(self) -> None:
        desk = self.some()
        await desk.pause()
        await desk.resume()

    async def halt(self) -> None:
        desk = self.some()
        await desk.pause(memory=False)
        await desk.resume()
        assert (await desk.run(["true"])).ok

    async def kill(self) -> None:
        desk = self.some()
        told = state.read_facts(self.settings.run / "desks" / desk.id) or {}
        os.kill(int(str(told["pid"])), signal.SIGKILL)
        self.forgotten(desk)
        with pytest.raises(DeskGone):
            await desk.run(["sleep", "1000"])

    async def give_up(self) -> None:
        desk = self.some()
        with anyio.move_on_after(self.chance.random() * 0.05), suppress(HotdeskError):
            await self.chance.choice((desk.fork, desk.snapshot, lambda: self.lose(desk)))()

    async def lose(self, desk: Desk) -> None:
        """Burn a desk, perhaps without waiting for the end."""
        self.forgotten(desk)
        with anyio.CancelScope(shield=True):
            await self.host.burn(desk.id)


def kill_an_owner(settings: Config, chance: random.Random) -> None:
    folders = [str(settings.run), str(settings.lib), str(settings.images)]
    argv = [sys.executable, "-c", OWNER, *folders, str(chance.random())[2:], settings.disk]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as owner:
        assert owner.stdout is not None
        keeper = int(owner.stdout.readline())
        time.sleep(chance.random() * 1.5)
        victims = chance.choice(((owner.pid,), (keeper,), (owner.pid, keeper), (keeper, owner.pid)))
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        owner.kill()


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def empty(host: Host) -> int:
    """Burn every desk but the ready ones; return the keeper's number of descriptors."""
    assert isinstance(host.runtime, KeeperRuntime)
    for desk in list(host.runtime.desks):
        await host.burn(desk)
    await host.pool.wait_until_full()
    await anyio.sleep(0.5)
    assert set(host.runtime.handles) == {spare.desk.id for shelf in host.pool.shelves.values() for spare in shelf.ready}
    return descriptors(host.runtime.keeper.pid)


@pytest.mark.parametrize("disk", ["auto", "ext4"])
async def test_whatever_happens_to_desks_nothing_is_left(settings: Config, home: Path, disk: str) -> None:
    chance = random.Random(f"{disk} {CYCLES}")
    chosen = Config(run=settings.run, lib=settings.lib, images=settings.images, disk=disk)
    before = things(home)
    start = time.monotonic()
    async with Host(chosen) as host:
        host.keep_ready(Spec(memory=256 * MIB), 2)
        crowd = Crowd(host, chosen, chance)
        at_first = 0
        for number in range(CYCLES // 2):
            await crowd.step()
            if number % EVERY == 0:
                await anyio.to_thread.run_sync(kill_an_owner, chosen, chance)
            if number == EDGE:
                at_first = await empty(host)
                crowd = Crowd(host, chosen, chance)
        in_the_end = await empty(host)
    taken = time.monotonic() - start
    await bury(chosen)
    print(f"{disk}: {taken / (CYCLES // 2) * 1e3:.0f} ms a cycle, keeper's descriptors {at_first} → {in_the_end}")
    assert in_the_end <= at_first + 2
    assert state.list_own_desks(chosen) == []
    assert [desk for desk in claims().values() if home in desk.parents] == []
    assert layers(chosen) == []
    end = time.monotonic() + 10
    while (left := things(home) - before) and time.monotonic() < end:
        await anyio.sleep(0.1)
    assert left == set()
