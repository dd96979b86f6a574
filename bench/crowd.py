"""Many desks: a hundred opened together, a steady stream of them, and hundreds that idle."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from bench.book import Book, available_memory, busy_seconds, memory_of
from bench.peers import Peers, clear_cgroups
from bench.start import ready

from hotdesk.desk.keeper import state
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import HotdeskError
from hotdesk.host import Host

SMALL = Spec(memory=256 << 20)
RATE, PODMAN_RATE = "open, exec, burn per s", "podman run per s"
THRIFT, PODMAN_THRIFT = "open, exec, burn per CPU second", "podman run per CPU second"
PRIVATE, EACH = "idle desk: MiB of the guest alone", "idle desk: MiB the machine loses"
AT_ONCE = 4
"""Concurrent workers of a steady stream: enough to keep two cores busy."""
PATIENCE = 120.0


def burst_of(count: int) -> str:
    return f"burst: {count} cold opens"


def podman_burst_of(count: int) -> str:
    return f"burst: {count} podman run"


def answered(count: int) -> str:
    """Return the name of the share of a burst's desks that answered, in the worst round."""
    return f"burst: % of {count} desks that answered"


def weight(count: int) -> str:
    """Return the name of the memory that idle desks take."""
    return f"{count} idle desks: GiB the machine loses"


def ping(count: int) -> str:
    """Return the name of the time in which all idle desks answer."""
    return f"{count} idle desks: s until all answered"


def pinged(count: int) -> str:
    """Return the name of the number of idle desks that answered."""
    return f"{count} idle desks: % that answered"


async def together(count: int, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Run the same work many times at once."""
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(work)


async def burst(host: Host, count: int, book: Book, number: int) -> None:
    """Open many desks together, each answering; then burn them together."""
    desks: list[Desk] = []

    async def one() -> None:
        try:
            desks.append(await ready(host, spec=SMALL))
        except HotdeskError as e:
            book.lack(["a desk of the burst"], e)

    start = time.perf_counter()
    await together(count, one)
    book.note(burst_of(count), number, time.perf_counter() - start)
    book.facts[answered(count)] = min(book.facts.get(answered(count), 100), 100 * len(desks) / count)
    start = time.perf_counter()
    await burn_all(host, desks)
    book.note("burst: burning all", number, time.perf_counter() - start)


async def burn_all(host: Host, desks: list[Desk]) -> None:
    async with anyio.create_task_group() as tasks:
        for desk in desks:
            tasks.start_soon(host.burn, desk.id)


def podman_burst(peers: Peers, count: int, book: Book, number: int) -> None:
    """Start many `podman run` together and wait for all."""
    argv = [*peers.podman(), "true"]
    start = time.perf_counter()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = [subprocess.Popen(argv, **pipes) for _ in range(count)]  # type: ignore[call-overload]
    codes = []
    for each in running:
        try:
            each.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            each.kill()
            each.communicate()
        codes.append(each.returncode)
    book.note(podman_burst_of(count), number, time.perf_counter() - start)
    share = f"burst: % of {count} podman run that succeeded"
    book.facts[share] = min(book.facts.get(share, 100), 100 * codes.count(0) / count)


async def stream(count: int, work: Callable[[], Coroutine[Any, Any, object]]) -> tuple[float, float]:
    """Run the same work many times, a few at once; return the rate per second, and per CPU second of the machine."""
    left = iter(range(count))

    async def one() -> None:
        for _ in left:
            await work()

    busy, start = busy_seconds(), time.perf_counter()
    await together(AT_ONCE, one)
    took, used = time.perf_counter() - start, busy_seconds() - busy
    return count / took, count / max(used, 0.01)


async def sustain(host: Host, peers: Peers | None, count: int, book: Book, number: int) -> None:
    """Open, use and burn desks in a steady stream; then measure podman the same way."""

    async def life() -> None:
        await host.burn((await ready(host)).id)

    async def container() -> None:
        assert peers is not None
        await anyio.run_process([*peers.podman(), "true"], input=b"")

    rate, thrift = await stream(count, life)
    book.note(RATE, number, rate)
    book.note(THRIFT, number, thrift)
    if peers is not None:
        rate, thrift = await stream(max(count // 4, AT_ONCE), container)
        book.note(PODMAN_RATE, number, rate)
        book.note(PODMAN_THRIFT, number, thrift)


async def idle(host: Host, count: int, book: Book) -> None:
    """Measure many idle desks: memory of the guest and of the machine, and whether all still answer at once."""
    before = available_memory()
    desks: list[Desk] = []
    heard: list[float] = []

    async def one() -> None:
        desks.append(await ready(host, spec=SMALL))

    async def ask(desk: Desk) -> None:
        if (await desk.run(["true"])).ok:
            heard.append(time.perf_counter() - start)

    try:
        await together(count, one)
        await anyio.sleep(2)
        lost = before - available_memory()
        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for desk in desks:
                tasks.start_soon(ask, desk)
        told = {str(entry["id"]): int(str(entry["pid"])) for entry in state.list_own_desks(host.config)}
        private = statistics.median(memory_of(told[desk.id]) for desk in desks)
    finally:
        await burn_all(host, desks)
    book.facts[PRIVATE] = private / (1 << 20)
    book.facts[EACH] = lost / len(desks) / (1 << 20)
    book.facts[weight(count)] = lost / (1 << 30)
    book.facts[ping(count)] = max(heard)
    book.facts[pinged(count)] = 100 * len(heard) / count


async def measure(host: Host, peers: Peers, book: Book, *, bursts: int, size: int, stream: int, resting: int) -> None:
    """Measure bursts and streams alternately with podman's, then idle desks."""
    rival = peers if shutil.which("podman") else None
    if rival is None:
        book.lack([podman_burst_of(size), PODMAN_RATE, PODMAN_THRIFT], "podman is not installed: make bench PEERS=1")
    for number in range(bursts):
        await sustain(host, rival, stream, book, number)
        await burst(host, size, book, number)
        if rival is not None:
            await anyio.to_thread.run_sync(podman_burst, rival, size, book, number)
            clear_cgroups()
    await idle(host, resting, book)
