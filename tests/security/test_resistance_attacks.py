"""Attacks by desks that resist burning: whatever state their processes are in, they burn within a bound."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskGone
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.security.conftest import Attack, Craft, Init, Launch, Open, Owning
from tests.security.guards import FIRST_PROCESS_SPARED, NEVER_THAWED, Removal, falls_without
from tests.security.test_lifetime_attacks import is_gone, until

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

SMALL = Spec(memory=256 * MIB, disk=64 * MIB, pids=128, cpus=1)
NEEDED = ("memory", "pids", "cpu", "devices", "freezer")
BOUND = 8.0
"""Seconds a burn may take on a busy machine; a quiet one needs a few hundredths of one."""
RESISTERS = {
    "a chain of vforks": """
def deeper(left):
    if left and call("clone", 0x4000 | 17, 0, 0, 0, 0) == 0:  # the parent cannot go on before its child is gone
        deeper(left - 1)
    time.sleep(99)
if not os.fork():
    deeper(20)
""",
    "children stopped by their tracer": """
for _ in range(20):
    if not os.fork():
        call("ptrace", 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(99)
""",
    "children whose exit their tracer holds": """
for _ in range(10):
    child = os.fork()
    if not child:
        call("ptrace", 0, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(99)
    os.waitpid(child, 0x40000000)
    call("ptrace", 0x4200, child, 0, 0x40)
    call("ptrace", 7, child, 0, 0)
    os.kill(child, 15)
""",
    "stopped groups": """
for _ in range(20):
    if not os.fork():
        os.setsid()
        os.fork()
        os.kill(0, signal.SIGSTOP)
        time.sleep(99)
""",
    "children nobody reaps": """
for _ in range(60):
    if not os.fork():
        os._exit(0)
""",
    "a race of forks": """
for _ in range(10):
    if not os.fork():
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
            os.setsid()
""",
    "waiting for locks": """
fd = os.open("/tmp/lock", os.O_CREAT | os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
for _ in range(20):
    if not os.fork():
        fcntl.flock(os.open("/tmp/lock", os.O_RDWR), fcntl.LOCK_EX)
""",
    "every signal blocked": """
for _ in range(20):
    if not os.fork():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.read(os.pipe()[0], 1)
""",
    "writing to disk": """
for number in range(4):
    if not os.fork():
        fd = os.open("/tmp/w%d" % number, os.O_CREAT | os.O_RDWR)
        while True:
            os.pwrite(fd, os.urandom(1 << 20), 0)
            os.fsync(fd)
""",
    "threads that will not end": """
import _thread
for _ in range(60):
    _thread.start_new_thread(time.sleep, (99,))
""",
    "in a cage of its own": """
class Rule(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))
libc.prctl(38, 1, 0, 0, 0)
fd = call("landlock_create_ruleset", ctypes.byref(Rule((1 << 13) - 1, 3, 3)), 24, 0)
call("landlock_restrict_self", fd, 0)
""",
}
SPREAD = """
import _thread
for _ in range(8):
    if not os.fork():
        os.setsid()
        if not os.fork():
            for _ in range(4):
                _thread.start_new_thread(time.sleep, (99,))
            time.sleep(99)
        os._exit(0)
    os.wait()
time.sleep(0.5)
tell(1)
time.sleep(99)
"""
DYING_PYTHON = """#!/usr/bin/python3
import os, sys, threading
sys.path.insert(0, "/run/hotdesk/lib")
from hotdesk_guest import agent
threading.Timer(1, os._exit, [3]).start()
agent.main("/run/hotdesk/link.sock")
"""


@pytest.mark.sample(9)
@falls_without("an end to desks that resist", *FIRST_PROCESS_SPARED, cases=[f"{how}-running" for how in RESISTERS])
@falls_without("an end to frozen desks that resist", *NEVER_THAWED, cases=[f"{how}-frozen" for how in RESISTERS])
@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
@pytest.mark.parametrize("how", RESISTERS)
async def test_a_desk_that_resists_burns_within_a_bound(
    fresh: Open, neighbour: Desk, runtime: KeeperRuntime, launch: Launch, settings: Config, how: str, frozen: bool
) -> None:
    async with fresh(SMALL) as desk:
        await launch(desk, RESISTERS[how] + "\ntell(os.getpid())\ntime.sleep(99)")
        await anyio.sleep(0.2)
        if frozen:
            Cgroup(find_hierarchies(), desk.id).freeze(True)
        assert (await neighbour.run(["echo", "here"], timeout=10)).stdout == b"here\n"
        begun = time.monotonic()
        await runtime.burn(desk.id)
        assert time.monotonic() - begun < BOUND
        assert is_gone(settings, desk.id)
        assert (await neighbour.run(["echo", "still"], timeout=10)).stdout == b"still\n"


@falls_without(
    "every hierarchy",
    Removal(
        "linux/cgroup.py", '/cgroup.procs" for folder in self.places]', '/cgroup.procs" for folder in self.places[1:]]'
    ),
)
async def test_no_thread_or_orphan_leaves_the_desks_cgroup(
    fresh: Open, launch: Launch, settings: Config, init: Init
) -> None:
    async with fresh(SMALL) as desk:
        await launch(desk, SPREAD)
        uid = os.stat(f"/proc/{descendant(init(settings, desk))}").st_uid
        places = {task: controllers(task) for task in tasks(uid)}
        assert len(places) > 40
        wanted = dict.fromkeys(("unified",) if find_hierarchies().version == 2 else NEEDED, f"hotdesk-{desk.id}")
        assert {task: found for task, found in places.items() if found != wanted} == {}


def descendant(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]


def tasks(uid: int) -> list[Path]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"Uid:\t{uid}\t" in (folder / "status").read_text():
                found += list((folder / "task").iterdir())
        except OSError:
            continue
    return found


def controllers(task: Path) -> dict[str, str]:
    found = {}
    for line in (task / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(",") if find_hierarchies().version == 1 else ["unified"]:
            if name in (*NEEDED, "unified"):
                found[name] = path.rpartition("/")[2]
    return found


@falls_without(
    "an end with the first process",
    Removal("keeper/keeper.py", "elif pid == tracked.init:", "elif pid == -tracked.init:"),
)
async def test_a_desk_whose_first_process_is_killed_ends_and_reports_it(
    fresh: Open, neighbour: Desk, settings: Config, init: Init, launch: Launch
) -> None:
    async with fresh(SMALL) as desk:
        process, _ = await launch(desk, "tell(1)\ntime.sleep(99)")
        os.kill(init(settings, desk), signal.SIGKILL)
        with anyio.fail_after(10), pytest.raises(DeskGone, match="its first process ended"):
            await process.wait()
        assert await until(lambda: is_gone(settings, desk.id), 10)
        assert (await neighbour.run(["true"], timeout=10)).ok


@falls_without("an end with the first process")
async def test_a_desk_that_ends_its_own_first_process_is_reported_as_gone(
    fresh: Open, neighbour: Desk, settings: Config, attack: Attack
) -> None:
    async with fresh(SMALL) as desk:
        await attack(desk, "tell(call('prlimit64', 1, 9, struct.pack('QQ', 1, 1), 0))")  # the guest has no memory left
        with anyio.fail_after(20), pytest.raises(DeskGone, match="its first process ended"):
            await exhaust(desk)
        assert await until(lambda: is_gone(settings, desk.id), 10)
        assert (await neighbour.run(["true"], timeout=10)).ok


async def exhaust(desk: Desk) -> None:
    """Have a guest do one thing after another, each of which uses memory."""
    while True:
        await desk.run(["true"], env={"BIG": "x" * 100_000}, timeout=10)


@falls_without("an end with the first process")
async def test_a_desk_ends_with_its_guest(crafted: Craft, owning: Owning) -> None:
    def fill(layer: Path) -> None:
        (layer / "evil").mkdir()
        (layer / "evil/python").write_text(DYING_PYTHON)
        (layer / "evil/python").chmod(0o755)

    settings = crafted("dying", fill, python="/evil/python")
    async with owning(settings) as runtime:
        desk = await runtime.open(Spec(image="dying"))
        with anyio.fail_after(15), pytest.raises(DeskGone, match="its first process ended"):
            await desk.run(["sleep", "60"])
        assert await until(lambda: is_gone(settings, desk.id), 10)
