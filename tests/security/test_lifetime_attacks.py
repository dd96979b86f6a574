"""Tests that nothing of a desk outlives its owner, keeper or deadline, whichever process is killed or resists."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest

from hotdesk.config import Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Spec
from hotdesk.errors import DeskError, DeskGone
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.leftovers import claims
from tests.security.conftest import Command, Init, Open, Owning
from tests.security.guards import NEVER_THAWED, Removal, falls_without

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

Owned: TypeAlias = tuple[subprocess.Popen[str], str, int]

OWNER = """
import json, sys
import anyio
from pathlib import Path
from hotdesk.config import Config
from hotdesk.desk.owner.runtime import container_runtime
from hotdesk.desk.seam import Spec
from hotdesk.errors import HotdeskError

async def main():
    run, lib, images, disk_in = sys.argv[1:5]
    settings = Config(run=Path(run), lib=Path(lib), images=Path(images))
    async with container_runtime(settings) as runtime:
        desk = await runtime.open(Spec(disk_in=disk_in, deadline=float(sys.argv[5])))
        resist = "trap '' INT TERM HUP; (setsid sleep 999 &); while :; do sleep 1; done"
        process = await desk.start(["sh", "-c", resist], stdin=False)
        print(json.dumps({"desk": desk.id, "keeper": runtime.keeper.pid}), flush=True)
        try:
            await process.wait()
        except HotdeskError as e:
            print(type(e).__name__, flush=True)

anyio.run(main)
"""


@contextmanager
def owner(settings: Config, disk_in: str = "disk", deadline: float = 600) -> Iterator[Owned]:
    """Run a process that owns one desk; yield the process, the desk's id and its keeper's pid."""
    argv = [sys.executable, "-c", OWNER, str(settings.run), str(settings.lib), str(settings.images), disk_in]
    process = subprocess.Popen([*argv, str(deadline)], stdout=subprocess.PIPE, text=True, cwd="/")
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        yield process, told["desk"], told["keeper"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def processes(desk: str) -> set[int]:
    return Cgroup(find_hierarchies(), desk).list_pids()


def is_gone(settings: Config, desk: str) -> bool:
    """Return whether nothing of a desk is left: process, cgroup, folder, entry of the runtime or claim of user ids."""
    cgroup = Cgroup(find_hierarchies(), desk)
    folder = settings.run / "desks" / desk
    left = [folder.exists(), (settings.run / "runtime" / desk).exists(), folder in claims().values()]
    return not processes(desk) and not any(left) and not any(each.exists() for each in cgroup.folders.values())


async def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        await anyio.sleep(0.05)
    return True


@falls_without(
    "an end with the owner",
    Removal("keeper/keeper.py", '            self.burn(desk, "owner gone")\n', "            pass\n"),
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_desk_dies_with_its_owner(settings: Config, number: int) -> None:
    with owner(settings) as (process, desk, keeper):
        assert len(processes(desk)) >= 2
        process.send_signal(number)
        assert await until(lambda: is_gone(settings, desk), 10)
        assert await until(lambda: not Path(f"/proc/{keeper}").exists(), 10)


@falls_without(
    "an end by the owner", Removal("owner/runtime.py", "            await bury(self.config)\n", "            pass\n")
)
async def test_an_owner_removes_its_desk_when_the_keeper_is_killed(settings: Config) -> None:
    with owner(settings) as (process, desk, keeper):
        os.kill(keeper, signal.SIGKILL)
        assert await until(lambda: is_gone(settings, desk), 15)
        assert process.stdout is not None
        assert (await anyio.to_thread.run_sync(process.stdout.readline)).strip() in ("DeskGone", "KeeperError")


@falls_without(
    "an end by the next keeper",
    Removal("keeper/reap.py", "for desk in state.list_orphans(settings):", "for desk in list[str]():"),
)
@pytest.mark.parametrize("disk_in", ["disk", "memory"])
async def test_a_keeper_removes_the_desk_of_a_killed_owner_and_keeper(
    settings: Config, owning: Owning, disk_in: str
) -> None:
    with owner(settings, disk_in) as (process, desk, keeper):
        process.send_signal(signal.SIGSTOP)  # so that the owner cannot clear the desk away itself
        os.kill(keeper, signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait()
        await anyio.sleep(0.3)
        assert processes(desk), "nothing is left to bury"
        async with owning(settings) as runtime:
            await runtime.burn((await runtime.open(Spec())).id)
            assert is_gone(settings, desk)


@falls_without(
    "an end in time",
    Removal("keeper/keeper.py", "            if at <= read_clock():\n", "            if at <= read_clock() - 60:\n"),
)
async def test_a_stopped_owner_does_not_stop_a_deadline(settings: Config) -> None:
    with owner(settings, deadline=4) as (process, desk, _):
        process.send_signal(signal.SIGSTOP)
        assert await until(lambda: is_gone(settings, desk), 10)


@falls_without("an end to frozen desks", *NEVER_THAWED)
@pytest.mark.parametrize("ask", ["burn", "owner"])
async def test_a_frozen_desk_burns_too(settings: Config, command: Command, ask: str) -> None:
    with owner(settings) as (process, desk, _):
        Cgroup(find_hierarchies(), desk).freeze(True)
        if ask == "owner":
            process.kill()
        else:
            assert (await command(settings, "burn", desk)).returncode == 0
        assert await until(lambda: is_gone(settings, desk), 12)


@falls_without("an end to bombs")
async def test_a_desk_that_ignores_signals_burns_at_once(fresh: Open, runtime: KeeperRuntime, settings: Config) -> None:
    async with fresh(Spec()) as desk:
        code = "trap '' INT TERM HUP QUIT; for n in 1 2 3 4 5 6 7 8; do (setsid sleep 99 &); done; sleep 99"
        await desk.start(["sh", "-c", code], stdin=False)
        await anyio.sleep(0.3)
        begun = time.monotonic()
        await runtime.burn(desk.id)
        assert time.monotonic() - begun < 5
        assert is_gone(settings, desk.id)
        with pytest.raises(DeskError):
            await desk.run(["true"])


@falls_without("an end in time")
async def test_a_deadline_and_an_idle_limit_burn_a_working_desk(fresh: Open, settings: Config) -> None:
    async with fresh(Spec(deadline=1.0)) as busy, fresh(Spec(idle=1.0)) as idle:
        await idle.run(["sh", "-c", "setsid sh -c 'while :; do :; done' >/dev/null 2>&1 &"])
        with anyio.fail_after(15), pytest.raises(DeskGone):
            await busy.run(["sh", "-c", "while :; do :; done"])
        assert await until(lambda: is_gone(settings, idle.id) and is_gone(settings, busy.id), 10)


@falls_without(
    "ids that rest",
    Removal("linux/uids.py", "os.symlink(str((slot + 1) % (SLOTS - 1)), cursor)", "os.symlink(str(slot), cursor)"),
)
async def test_freed_user_ids_are_not_reused_at_once(fresh: Open, settings: Config, init: Init) -> None:
    seen = []
    for _ in range(3):
        async with fresh(Spec()) as desk:
            text = Path(f"/proc/{init(settings, desk)}/status").read_text()
            seen.append(int(text.partition("Uid:")[2].split()[0]))
    assert len(set(seen)) == 3
