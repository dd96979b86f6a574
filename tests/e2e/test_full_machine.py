"""Tests of a full machine, or one whose clock jumps: a desk opens completely or not at all, with a reason."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.keeper.spawn import Started, encode_settings
from hotdesk.desk.owner.keeper_client import KeeperClient
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskGone, HostError, HotdeskError
from hotdesk.host import Host
from hotdesk.ipc.tasks import background

pytestmark = pytest.mark.container

JUMPING_KEEPER = """
import itertools, sys, time
real, turns = time.time, itertools.count()
time.time = lambda: real() + (-1) ** next(turns) * 1e8
sys.path.insert(0, sys.argv[2])
from hotdesk.desk.keeper import keeper
keeper.main()
"""


@pytest.mark.parametrize(
    ("floor", "most", "told"),
    [
        ("disk_floor", 1 << 60, "GiB are free below"),
        ("memory_floor", 1 << 60, "MiB of memory are available"),
        ("pids_floor", 1 << 60, "more processes can be started"),
    ],
)
async def test_below_a_floor_opening_is_refused_with_the_remedy(
    settings: Config, floor: str, most: int, told: str
) -> None:
    full = replace(settings, **{floor: most})  # type: ignore[arg-type]
    async with Host(full, control=False) as host:
        with pytest.raises(HostError, match=told) as refused:
            await host.open()
        assert "burn desks" in str(refused.value)
        assert not list((settings.run / "desks").glob("i*"))


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir(mode=0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "small", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.parametrize("place", ["run", "lib"])
async def test_a_full_disk_of_the_host_leaves_no_half_desk(home: Path, settings: Config, place: str) -> None:
    with small_disk(home / f"small-{place}", 8 * MIB) as small:
        moved = {"disk": "ext4", "disk_floor": 0, place: small / "state"}
        cramped = replace(settings, **moved)  # type: ignore[arg-type]
        async with Host(cramped, control=False) as host:
            async with host.open_desk(Spec(disk=2 * MIB if place == "lib" else 64 * MIB)) as desk:
                assert (await desk.run(["true"])).ok
            with suppress_full(small / "ballast") as ballast:
                while os.write(ballast, bytes(1 << 16)):
                    pass
            with pytest.raises(HotdeskError, match=r"No space left|failed"):
                await host.open(Spec(disk=4 * MIB))
            (small / "ballast").unlink()
            async with host.open_desk(Spec(disk=2 * MIB)) as desk:
                assert (await desk.run(["true"])).ok


@contextmanager
def suppress_full(path: Path) -> Iterator[int]:
    """Yield a file to fill a disk with; the error that it is full ends the block."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        yield fd
    except OSError:
        pass
    finally:
        os.close(fd)


async def test_a_hundred_desks_are_open_at_once_and_each_answers(settings: Config) -> None:
    desks: list[Desk] = []
    names: set[bytes] = set()

    async def use(host: Host) -> None:
        desk = await host.open(Spec(memory=128 * MIB, disk=64 * MIB))
        desks.append(desk)
        names.add((await desk.run(["hostname"], timeout=60)).stdout)

    async with Host(settings, control=False) as host:
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(use, host)
        assert len(desks) == len(names) == 100
        assert (await desks[0].run(["hostname"])).stdout in names


async def test_desks_open_in_the_order_of_their_requests(settings: Config) -> None:
    order: list[int] = []

    async def use(host: Host, number: int) -> None:
        await host.open(Spec(memory=128 * MIB, disk=64 * MIB))
        order.append(number)

    async with Host(settings, control=False) as host, anyio.create_task_group() as tasks:
        for number in range(24):
            tasks.start_soon(use, host, number)
            await anyio.lowlevel.checkpoint()
    last_of_first_half = max(order.index(number) for number in range(8))
    assert last_of_first_half < 16, order


async def test_a_cancelled_opening_in_the_queue_opens_nothing(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        with anyio.move_on_after(0.05):
            async with anyio.create_task_group() as tasks:
                for _ in range(24):
                    tasks.start_soon(host.open)
        with anyio.fail_after(10):
            while list((settings.run / "desks").glob("i*")):
                await anyio.sleep(0.01)
        async with host.open_desk() as desk:
            assert (await desk.run(["true"])).ok


@pytest.mark.long
async def test_a_jumping_clock_moves_no_deadline(settings: Config) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told = encode_settings(settings)
    source = str(Path(sys.modules["hotdesk"].__file__ or "").resolve().parents[1])
    keeper = os.posix_spawn(  # noqa: ASYNC221 - it returns at once
        sys.executable,
        [sys.executable, "-c", JUMPING_KEEPER, told, source],
        {"PATH": os.defpath},
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
    )
    theirs.close()
    async with background() as tasks:
        runtime = KeeperRuntime(settings, KeeperClient(Started(ours, keeper)), tasks)
        tasks.start(runtime.watch)
        desk = await runtime.open(Spec(deadline=3.0, idle=60.0))
        start = anyio.current_time()
        await anyio.sleep(1)
        assert (await desk.run(["true"])).ok
        with pytest.raises(DeskGone, match="deadline"):
            await desk.run(["sleep", "60"], timeout=20)
        assert 1.5 < anyio.current_time() - start < 10
        await runtime.keeper.close()
        runtime.hang_up()


FEW_FILES = """
import os, resource, sys
import anyio
from pathlib import Path
from hotdesk.config import Config
from hotdesk.errors import HotdeskError
from hotdesk.host import Host

async def main():
    run, lib, images = map(Path, sys.argv[1:4])
    async with Host(Config(run=run, lib=lib, images=images), control=False) as host:
        held = []
        async with host.open_desk() as desk:
            try:
                while True:
                    held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                pass
            for spare in range(4):
                try:
                    await host.open()
                except HotdeskError as e:
                    print(spare, type(e).__name__, e)
                os.close(held.pop())
            for fd in held:
                os.close(fd)
            async with host.open_desk() as other:
                print((await other.run(["echo", "open"])).text, end="")

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
anyio.run(main)
"""


def test_running_out_of_descriptors_is_reported_and_survived(settings: Config) -> None:
    places = [str(settings.run), str(settings.lib), str(settings.images)]
    argv = [sys.executable, "-W", "error", "-c", FEW_FILES, *places]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("0 HostError this process has too many open files"), lines
    assert lines[-1] == "open"
    assert not done.stderr
