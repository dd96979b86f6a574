"""Tests of machines, keepers and callers that fail at the wrong moment: desks and owners survive it, or are gone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.seam import Process, Spec, new_id
from hotdesk.errors import HotdeskError
from hotdesk.host import Host, control_path
from hotdesk.linux import loopdev

pytestmark = pytest.mark.container
LEAVE_A_LAYER = """
import sys
from pathlib import Path
from hotdesk.desk.room import disk
from hotdesk.linux import syscalls as kernel
kernel.unshare(kernel.CLONE_NEWNS)
kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
pool = disk.Btrfs(Path(sys.argv[1]), Path(sys.argv[2]))
pool.mount()
if len(sys.argv) > 3:
    pool.make(sys.argv[3], 1 << 20, Path("/"))
print(*pool.list_leftovers())
"""


def layers(settings: Config, *make: str) -> list[str]:
    argv = [str(settings.lib / "pool.btrfs"), str(settings.run / "pool"), *make]
    done = subprocess.run([sys.executable, "-c", LEAVE_A_LAYER, *argv], check=True, capture_output=True, text=True)
    return done.stdout.split()


async def test_a_disk_of_an_unrecorded_desk_is_deleted(settings: Config) -> None:
    lost = new_id()
    assert lost in layers(settings, lost)
    async with Host(settings, control=False) as host, host.open_desk() as desk:
        assert (await desk.run(["true"])).ok
    assert lost not in layers(settings)


async def test_keepers_share_one_loop_device_whatever_path_leads_to_the_pool(settings: Config, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(settings.lib)
    other = replace(settings, lib=tmp_path / "elsewhere")
    async with Host(settings, control=False) as one, Host(other, control=False) as two:  # noqa: SIM117
        async with one.open_desk(), two.open_desk():
            pool = os.stat(settings.lib / "pool.btrfs")
            devices = []
            for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
                shown = Path(entry.read_text().strip())
                if shown.exists() and os.stat(shown).st_ino == pool.st_ino:
                    devices.append(entry.parts[3])
            assert len(devices) == 1
            found = loopdev.find(tmp_path / "elsewhere/pool.btrfs")
            assert found is not None
            os.close(found[1])
            assert found[0] == f"/dev/{devices[0]}"


async def test_a_deadline_may_be_far_away(settings: Config) -> None:
    far = Spec(deadline=360 * 86400, idle=360 * 86400)
    async with Host(settings, control=False) as host, host.open_desk(far) as desk:
        await anyio.sleep(0.1)
        assert (await desk.run(["true"])).ok


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"GET /desks HTTP/1.1\r\nHost",
        b"POST /desks HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + b"[" * 60000,
        b"POST /desks HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /desks/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["nothing", "nonsense", "half", "deep", "smuggling", "bytes"],
)
async def test_no_caller_ends_an_owner(settings: Config, said: bytes) -> None:
    async with Host(settings) as host, host.open_desk() as desk:
        caller = socket.socket(socket.AF_UNIX)
        with caller:
            caller.settimeout(30)
            caller.connect(str(control_path(settings, os.getpid())))
            caller.sendall(said)
            await anyio.sleep(0.05)
        await anyio.sleep(0.05)
        assert (await desk.run(["true"])).ok


async def test_a_borrower_during_a_big_write_survives_the_desks_end(settings: Config) -> None:
    async with Host(settings) as host, Host(settings, control=False) as other:
        desk = await host.open()
        lent = await other.find(desk.id)
        process = await lent.start(["sleep", "60"])
        with pytest.raises(ExceptionGroup) as caught:
            await write_while(process, lambda: host.burn(desk.id))
        assert caught.group_contains(HotdeskError)
        async with host.open_desk() as another:
            assert (await another.run(["true"])).ok


async def write_while(process: Process, work: Callable[[], Awaitable[None]]) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.send, bytes(8 << 20))
        await anyio.sleep(0.2)
        await work()
        await process.wait()


async def test_cancelled_openings_leave_neither_desk_nor_descriptor(settings: Config) -> None:
    async with Host(settings, control=False) as host:
        async with host.open_desk():
            pass
        before = len(os.listdir("/proc/self/fd"))
        for delay in (0.0, 0.005, 0.01, 0.02, 0.03, 0.04):
            with anyio.move_on_after(delay):
                await host.open()
            for told in os.listdir(settings.run / "desks"):
                await host.burn(told)  # type: ignore[arg-type]
        await anyio.sleep(0.2)
        assert len(os.listdir("/proc/self/fd")) <= before + 1
        assert os.listdir(settings.run / "desks") == []
