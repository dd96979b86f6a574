"""Tests of the reader process behind a desk's screen: it starts on demand, may end, and ends with its desk."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskError, LinkError
from hotdesk.host import Host
from hotdesk.linux import uids
from tests.conftest import settings_in

pytestmark = pytest.mark.container


@pytest.fixture(scope="module")
async def host(home: Path) -> AsyncIterator[Host]:
    async with Host(settings_in(home / "seat"), control=False) as host:
        yield host


@pytest.fixture(scope="module")
async def desk(host: Host) -> AsyncIterator[Desk]:
    async with host.open_desk(Spec(image="desktop")) as desk:
        yield desk


def readers(host: Host) -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.stat().st_uid == uids.READER and int(fields[1]) == host.runtime.keeper.pid:  # type: ignore[attr-defined]
                found.add(int(entry.name))
        except FileNotFoundError:
            continue
    return found


async def gone(host: Host, pids: set[int]) -> None:
    with anyio.fail_after(10):
        while readers(host) & pids:
            await anyio.sleep(0.02)


async def test_a_desk_without_a_screen_names_an_image_that_has_one(host: Host) -> None:
    async with host.open_desk(Spec()) as plain:
        with pytest.raises(DeskError, match="has no screen: open a desk from the image `desktop`"):
            await host.get_seat(plain).ask("screen.shot")


async def test_a_killed_reader_is_reported_and_the_next_call_starts_another(host: Host, desk: Desk) -> None:
    seat = host.get_seat(desk)
    assert (await seat.ask("screen.shot")).blob[:4] == b"\x89PNG"
    (pid,) = readers(host)
    async with anyio.create_task_group() as tasks:

        async def wait() -> None:
            with pytest.raises(LinkError, match=r"process of desk .* was lost: the process ended; try again"):
                await seat.ask("screen.settle", quiet=9, timeout=9)

        tasks.start_soon(wait)
        await anyio.sleep(0.3)
        os.kill(pid, signal.SIGKILL)
    assert (await seat.ask("screen.shot")).blob[:4] == b"\x89PNG"
    assert readers(host).isdisjoint({pid})


async def test_abandoned_calls_are_cancelled(host: Host, desk: Desk) -> None:
    seat = host.get_seat(desk)
    with anyio.move_on_after(0.2):
        await seat.ask("screen.settle", quiet=30, timeout=60)
    with anyio.fail_after(20):
        assert (await seat.ask("screen.shot")).blob


async def test_a_reader_ends_with_its_desk(host: Host) -> None:
    before = readers(host)
    async with host.open_desk(Spec(image="desktop")) as desk:
        await host.get_seat(desk).ask("screen.shot")
        own = readers(host) - before
        assert len(own) == 1
    await gone(host, own)


async def test_a_screen_works_again_after_a_rollback(host: Host, desk: Desk) -> None:
    before = await desk.snapshot()
    await host.get_seat(desk).ask("screen.shot")
    await desk.rollback(before)
    assert (await host.get_seat(desk).ask("screen.shot")).blob[:4] == b"\x89PNG"


async def test_ready_readers_are_used_and_replaced(host: Host, desk: Desk) -> None:
    await host.seats.keep_ready(1)
    spare = readers(host)
    async with host.open_desk(Spec(image="desktop")) as other:
        await host.get_seat(other).ask("screen.shot")
        with anyio.fail_after(10):
            while len(host.seats.spare) < 1:
                await anyio.sleep(0.02)
        assert spare <= readers(host)
    await host.seats.keep_ready(0)
