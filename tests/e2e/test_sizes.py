"""Tests of the sizes that programs in a desk see: its own memory and CPUs, not the host's."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

SMALL = Spec(cpus=0.5, memory=256 * MIB)
SIZES = """
nproc
grep -c ^processor /proc/cpuinfo
grep -c '^cpu[0-9]' /proc/stat
cat /sys/devices/system/cpu/online
python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))'
awk '/^(MemTotal|SwapTotal)/ {print $2}' /proc/meminfo
tail -n +2 /proc/swaps | wc -l
"""
AVAILABLE = "awk '/^MemAvailable/ {print $2}' /proc/meminfo"


async def sizes(desk: Desk, user: str = "user") -> list[str]:
    done = await desk.run(["bash", "-c", SIZES], user=user)
    assert done.ok, done.stderr
    return done.text.split("\n")[:-1]


def shown(cpus: int, memory: int) -> list[str]:
    online = "0" if cpus == 1 else f"0-{cpus - 1}"
    return [str(cpus)] * 3 + [online, f"{cpus} {cpus}", str(memory >> 10), "0", "0"]


async def test_programs_read_the_desks_own_sizes(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk(replace(SMALL, root=True)) as desk:
        assert await sizes(desk) == shown(1, 256 * MIB)
        assert await sizes(desk, "root") == shown(1, 256 * MIB)
        free = (await desk.run(["free", "-m"])).text.splitlines()
        assert free[1].split()[:2] == ["Mem:", "256"]


async def test_a_fraction_of_a_cpu_is_one_and_more_than_the_machine_has_is_the_machine(settings: Config) -> None:
    cpus = len(os.sched_getaffinity(0))
    async with Host(settings) as host, host.open_desk(Spec(cpus=cpus - 0.5)) as desk:
        assert await sizes(desk) == shown(cpus, desk_memory())
        async with host.open_desk(Spec(cpus=cpus + 100)) as large:
            assert await sizes(large) == shown(cpus, desk_memory())


def desk_memory() -> int:
    return min(Spec().memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


async def test_a_claimed_desk_shows_the_requested_sizes(settings: Config) -> None:
    async with Host(settings) as host:
        host.keep_ready(Spec(), 1)
        with anyio.fail_after(50):
            await host.pool.wait_until_full()
        spare = host.pool.shelves[next(iter(host.pool.shelves))].ready[0].desk
        async with host.open_desk(SMALL) as desk:
            assert desk.id == spare.id
            assert await sizes(desk) == shown(1, 256 * MIB)


async def test_a_desk_that_starts_again_has_its_sizes_again(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk(SMALL) as desk:
        await desk.pause(memory=False)
        await desk.resume()
        assert await sizes(desk) == shown(1, 256 * MIB)


async def test_available_memory_follows_what_programs_take(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk(SMALL) as desk:
        before = int((await desk.run(["bash", "-c", AVAILABLE])).text)
        taken = await desk.start(["python3", "-c", "x = b'x' * (100 << 20); print('taken', flush=True); input()"])
        async for _, data in taken.output():
            assert data == b"taken\n"
            break
        after = before
        with anyio.move_on_after(20):
            while before - after < 90 << 10:
                after = int((await desk.run(["bash", "-c", AVAILABLE])).text)
        assert 90 << 10 <= before - after <= 140 << 10
        await taken.kill()


async def test_cpu_time_in_stat_is_the_desks_own(settings: Config) -> None:
    async with Host(settings) as host, host.open_desk(SMALL) as desk:

        async def busy() -> int:
            words = (await desk.run(["head", "-1", "/proc/stat"])).text.split()
            return int(words[1]) + int(words[3])

        assert await busy() < 3 * os.sysconf("SC_CLK_TCK")
        before = await busy()
        spin = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        assert (await desk.run(["python3", "-c", spin])).ok
        with anyio.fail_after(20):
            while await busy() - before < 0.3 * os.sysconf("SC_CLK_TCK"):
                await anyio.sleep(0.05)
