"""The cost of snapshots by the size of the change, of the upper layer and of the image; of rollback and fork.

The baseline is one `btrfs subvolume snapshot` by the btrfs program, on a separate loop file beside hotdesk's, after the
same change.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
from bench.book import Book, seconds, timed
from bench.crowd import burn_all, together
from bench.start import ready

from hotdesk.config import Config
from hotdesk.desk.image import image
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host
from hotdesk.linux import syscalls

CHANGED = (0, 1, 4, 16, 64)
"""Mebibytes written before a snapshot."""
UPPERS = (0, 100, 500)
"""Mebibytes in the upper layer."""
BALLAST = 500
"""Mebibytes by which the larger image exceeds the base image."""
FORKS = 20
ROLLBACK, REOPEN = "rollback → true → result", "cold open beside it"
FORK, OPENS = f"fork({FORKS})", f"{FORKS} cold opens, one after another"
CROWD = f"{FORKS} cold opens together"
BASE, LARGE = "snapshot, 1 MiB changed, base image", f"snapshot, 1 MiB changed, image larger by {BALLAST} MiB"


def changed(mebibytes: int) -> str:
    """Return the name of a desk's snapshot after a change."""
    return f"snapshot, {mebibytes} MiB changed"


def bare(mebibytes: int) -> str:
    """Return the name of the btrfs program's snapshot after a change."""
    return f"btrfs subvolume snapshot, {mebibytes} MiB changed"


def lying(mebibytes: int) -> str:
    """Return the name of a desk's snapshot with a full upper layer and a change of 1 MiB."""
    return f"snapshot, 1 MiB changed, upper of {mebibytes} MiB"


def dd(mebibytes: int, into: str) -> list[str]:
    """Return a command that writes incompressible data."""
    return ["dd", "if=/dev/urandom", f"of={into}", "bs=1M", f"count={mebibytes}", "status=none"]


@dataclass(frozen=True, slots=True)
class Subvolume:
    """A btrfs subvolume on a loop file."""

    folder: Path

    def snapshot(self, mebibytes: int, number: int) -> float:
        """Change the subvolume, then time its snapshot; the snapshot is deleted again."""
        copy = self.folder / f"copy-{number}-{mebibytes}"
        subprocess.run(dd(mebibytes, str(self.folder / "live" / "change")), check=True)
        took = seconds(["btrfs", "subvolume", "snapshot", str(self.folder / "live"), str(copy)])
        seconds(["btrfs", "subvolume", "delete", str(copy)])
        return took


@contextmanager
def subvolume(home: Path) -> Iterator[Subvolume | None]:
    """Yield a separate subvolume, or None if there is no btrfs program."""
    if shutil.which("btrfs") is None or shutil.which("mkfs.btrfs") is None:
        yield None
        return
    file, at = home / "peer.btrfs", home / "peer"
    at.mkdir()
    try:
        with file.open("wb") as made:
            made.truncate(8 << 30)
        seconds(["mkfs.btrfs", "-q", str(file)])
        seconds(["mount", "-o", "loop,noatime", str(file), str(at)])
        try:
            seconds(["btrfs", "subvolume", "create", str(at / "live")])
            yield Subvolume(at)
        finally:
            seconds(["umount", str(at)])
    finally:
        file.unlink()
        at.rmdir()


@contextmanager
def larger(settings: Config, home: Path) -> Iterator[Config]:
    """Yield settings with an image store that also has `large`: the base with a layer of ballast."""
    base, store = image.find(settings.images, "base"), home / "images"
    digest = "b" * 64
    ballast = store / "layers" / digest
    binds = [store / "layers" / layer.name for layer in base.layers]
    for folder in (store / "images", ballast, *binds):
        folder.mkdir(parents=True)
    for folder in (store, store / "images", store / "layers", ballast):
        folder.chmod(0o755)
    subprocess.run(dd(BALLAST, str(ballast / "ballast")), check=True)
    large = replace(base, name="large", digest=digest, layers=(ballast, *base.layers), size=base.size + (BALLAST << 20))
    for each in (base, large):
        image.get_record_path(store, each.name).write_bytes(image.dump(each))
    for layer, at in zip(base.layers, binds, strict=True):
        syscalls.mount(str(layer), str(at), None, syscalls.MS_BIND)
    try:
        yield replace(settings, images=store)
    finally:
        for at in binds:
            syscalls.umount(str(at))
        shutil.rmtree(store)


async def after(desk: Desk, mebibytes: int) -> float:
    """Change a desk's files, then time its snapshot; the snapshot is deleted again."""
    assert (await desk.run(dd(mebibytes, "change"))).ok
    start = time.perf_counter()
    taken = await desk.snapshot()
    took = time.perf_counter() - start
    await desk.forget(taken)
    return took


async def changes(host: Host, home: Path, book: Book, rounds: int) -> None:
    """Time a snapshot after each size of change, alternately with the btrfs program."""
    with subvolume(home) as peer:
        if peer is None:
            book.lack(map(bare, CHANGED), "btrfs-progs is not installed: make bench PEERS=1")
        async with host.open_desk() as desk:
            await after(desk, 1)
            for number in range(rounds):
                for size in CHANGED:
                    book.note(changed(size), number, await after(desk, size))
                    if peer is not None:
                        book.note(bare(size), number, await anyio.to_thread.run_sync(peer.snapshot, size, number))


async def uppers(host: Host, book: Book, rounds: int) -> None:
    """Time a snapshot for each size of the upper layer."""
    desks = {size: await ready(host) for size in UPPERS}
    for size, desk in desks.items():
        assert (await desk.run(dd(size, "lying"))).ok
        await after(desk, 1)
    for number in range(rounds):
        for size, desk in desks.items():
            book.note(lying(size), number, await after(desk, 1))
    await burn_all(host, list(desks.values()))


async def images(settings: Config, home: Path, book: Book, rounds: int) -> None:
    """Time a snapshot of a desk of the base image and of one of a larger image, alternately."""
    with larger(settings, home) as more:
        async with (
            Host(more, control=False) as host,
            host.open_desk() as plain,
            host.open_desk(Spec(image="large")) as large,
        ):
            await after(plain, 1)
            await after(large, 1)
            for number in range(rounds):
                book.note(BASE, number, await after(plain, 1))
                book.note(LARGE, number, await after(large, 1))


async def rollbacks(host: Host, book: Book, rounds: int) -> None:
    """Time a rollback after a change, alternately with a cold open."""
    async with host.open_desk() as desk:
        assert (await desk.run(dd(1, "before"))).ok
        taken = await desk.snapshot()

        async def back() -> None:
            await desk.rollback(taken)
            assert (await desk.run(["true"])).ok

        for number in range(rounds):
            opened: list[Desk] = []

            async def cold(opened: list[Desk] = opened) -> None:
                opened.append(await ready(host))

            book.note(REOPEN, number, await timed(cold))
            await burn_all(host, opened)
            assert (await desk.run(dd(1, "change"))).ok
            book.note(ROLLBACK, number, await timed(back))
            assert not (await desk.run(["test", "-e", "change"])).ok, "a rollback left what came after its snapshot"


async def answer(desk: Desk) -> None:
    """Have a desk run a program."""
    assert (await desk.run(["true"])).ok, f"desk {desk.id} does not answer"


async def forks(host: Host, book: Book, rounds: int) -> None:
    """Time forks of a desk, alternately with as many cold opens."""
    async with host.open_desk() as desk:
        assert (await desk.run(dd(1, "before"))).ok
        for number in range(rounds):
            made: list[Desk] = []

            async def cold(made: list[Desk] = made) -> None:
                made.append(await host.open())

            async def fork(made: list[Desk] = made) -> None:
                made.extend(await desk.fork(FORKS))

            async def in_turn(cold: Callable[[], Awaitable[None]] = cold) -> None:
                for _ in range(FORKS):
                    await cold()

            for name, work in (OPENS, in_turn), (CROWD, functools.partial(together, FORKS, cold)), (FORK, fork):
                book.note(name, number, await timed(work))
                for each in made:
                    await answer(each)
                await burn_all(host, made)
                made.clear()


async def measure(host: Host, home: Path, book: Book, rounds: int) -> None:
    await changes(host, home, book, rounds)
    await uppers(host, book, rounds)
    await images(host.config, home, book, rounds)
    await rollbacks(host, book, rounds)
    await forks(host, book, max(rounds // 4, 3))
