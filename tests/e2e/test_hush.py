"""Tests of what is stopped while a person has the wheel of a real desktop, and what continues."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.link.desk import LinkedDesk
from hotdesk.desk.owner.keeper_handle import suspend
from hotdesk.desk.seam import Spec
from hotdesk.errors import DeskError, FileError
from hotdesk.host import Host
from hotdesk.linux.cgroup import Cgroup, find_hierarchies

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

SPARED = {"Xtigervnc", "openbox", "tint2", "chromium", "chrome_crashpad_handler"}
LOGGER = """
import time
with open("/tmp/log", "w", buffering=1) as file:
    while True:
        print(time.monotonic(), file=file)
        time.sleep(0.005)
"""
BOMB = """
import itertools
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
STILL = 0.5


@pytest.fixture(scope="module")
async def host(settings: Config) -> AsyncIterator[Host]:
    async with Host(settings, control=False) as made:
        yield made


@pytest.fixture(scope="module")
async def desktop(host: Host) -> AsyncIterator[LinkedDesk]:
    async with host.open_desk(Spec(image="desktop", deadline=600)) as desk:
        assert isinstance(desk, LinkedDesk)
        for program in ("session", "browser"):
            assert (await desk.run([f"/usr/local/lib/hotdesk/{program}"], timeout=30)).ok
        yield desk


def running(desk: LinkedDesk) -> set[str]:
    found = set()
    for pid in Cgroup(find_hierarchies(), desk.id).list_unsuspended():
        try:
            found.add(Path(os.readlink(f"/proc/{pid}/exe")).name)
        except OSError:
            found.add(f"gone {pid}")
    return found


async def ask_inside(desk: LinkedDesk, port: int, said: bytes) -> bytes:
    with await desk.dial(port) as sock, anyio.fail_after(30):
        if said:
            sock.send(said)
        await anyio.wait_readable(sock)
        return sock.recv(12)


async def has_written(desk: LinkedDesk, size: int = 0) -> None:
    """Wait until the logger has written more than `size` bytes."""
    with anyio.fail_after(20):
        while True:
            with suppress(FileError):
                if len(await desk.read("/tmp/log")) > size:
                    return
            await anyio.sleep(0.02)


async def longest_silence(desk: LinkedDesk) -> float:
    """Return the longest time in which the logger did not run."""
    told = [float(line) for line in (await desk.read("/tmp/log")).split(b"\n")[:-1]]
    return max(later - sooner for sooner, later in itertools.pairwise(told))


async def test_a_logger_is_frozen_while_screen_and_browser_continue(desktop: LinkedDesk) -> None:
    logger = await desktop.start(["python3", "-c", LOGGER])
    await has_written(desktop)
    await suspend(desktop, True)
    assert running(desktop) <= SPARED
    assert {"Xtigervnc", "openbox", "chromium"} <= running(desktop)
    await anyio.sleep(STILL)
    assert await ask_inside(desktop, 5900, b"") == b"RFB 003.008\n"
    assert await ask_inside(desktop, 9222, b"GET /json/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") == b"HTTP/1.1 200"
    await suspend(desktop, False)
    await has_written(desktop, len(await desktop.read("/tmp/log")))
    assert await longest_silence(desktop) >= STILL
    await logger.kill()


async def test_a_call_waits_until_the_wheel_is_handed_back(desktop: LinkedDesk) -> None:
    await suspend(desktop, True)
    await suspend(desktop, True)
    ended = []

    async def call() -> None:
        assert (await desktop.run(["true"])).ok
        ended.append(time.monotonic())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await anyio.sleep(0.2)
        assert not ended
        await suspend(desktop, False)
    assert ended


async def test_a_suspended_desk_is_paused_and_snapshotted_like_any_other(desktop: LinkedDesk) -> None:
    await suspend(desktop, True)
    await desktop.pause()
    assert Cgroup(find_hierarchies(), desktop.id).is_frozen()
    await desktop.resume()
    await desktop.forget(await desktop.snapshot())
    assert not Cgroup(find_hierarchies(), desktop.id).is_frozen()
    assert running(desktop) <= SPARED
    assert desktop.link.may_be_silent()
    await suspend(desktop, False)
    assert (await desktop.run(["true"])).ok


async def test_programs_started_during_a_takeover_are_frozen_too(desktop: LinkedDesk) -> None:
    logger = await desktop.start(["python3", "-c", LOGGER])
    await suspend(desktop, True)
    cgroup = Cgroup(find_hierarchies(), desktop.id)
    loose = (cgroup.quiet / "cgroup.procs").read_text().split()
    for pid in loose:
        (cgroup.get_folder("freezer") / "cgroup.procs").write_text(pid)
    with anyio.fail_after(30):
        while not running(desktop) <= SPARED:
            await anyio.sleep(0.02)
    await suspend(desktop, False)
    await logger.kill()


async def test_a_program_that_poses_as_the_window_manager_is_not_spared(desktop: LinkedDesk) -> None:
    copied = "mkdir -p /tmp/usr/bin; cp /bin/sleep /tmp/usr/bin/openbox; exec /tmp/usr/bin/openbox 100"
    posing = await desktop.start(["sh", "-c", copied])
    await anyio.sleep(0.2)
    await suspend(desktop, True)
    cgroup = Cgroup(find_hierarchies(), desktop.id)
    assert {os.readlink(f"/proc/{pid}/exe") for pid in cgroup.list_unsuspended()}.isdisjoint({"/tmp/usr/bin/openbox"})
    await suspend(desktop, False)
    await posing.kill()


async def test_a_fork_bomb_is_frozen_or_reported_and_burnt(host: Host) -> None:
    async with host.open_desk(Spec(image="base", pids=60, deadline=60)) as desk:
        assert isinstance(desk, LinkedDesk)
        await desk.start(["python3", "-c", BOMB])
        await anyio.sleep(0.3)
        try:
            await suspend(desk, True)
        except DeskError:
            return
        assert running(desk) == set()
        await anyio.sleep(0.3)
        assert running(desk) == set()


async def test_a_suspended_desk_is_halted_and_starts_again(host: Host) -> None:
    async with host.open_desk(Spec(image="base", deadline=60)) as desk:
        assert isinstance(desk, LinkedDesk)
        await suspend(desk, True)
        await desk.pause(memory=False)
        await desk.resume()
        assert (await desk.run(["true"])).ok
        await suspend(desk, True)  # it can be burnt in this state
        assert running(desk) == set()
