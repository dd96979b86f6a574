"""Attacks on pausing: a desk that resists stops within a bound or its owner is told, and it can always be burnt."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Process, Spec
from hotdesk.errors import DeskError, DeskGone
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.security.guards import NEVER_THAWED, Removal, falls_without, no_guard
from tests.security.resident import peak, reset_peak

Launch = Callable[..., Awaitable[tuple[Process, Any]]]
Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

BOUND = 5.0
"""Seconds a pause may take on a busy machine; the keeper's own bound is far below."""
VFORKED = """
os.mkfifo("/tmp/never")
for _ in range(20):
    if not os.fork():
        places = [(os.POSIX_SPAWN_OPEN, 0, "/tmp/never", os.O_RDONLY, 0)]
        os.posix_spawn("/bin/true", ["true"], {}, file_actions=places)
        os._exit(0)
time.sleep(0.3)
tell(1)
while True:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
"""
STOPPED = """
def child():
    number = os.fork()
    if not number:
        while True:
            pass
    return number
stopped = [child() for _ in range(8)]
for number in stopped:
    os.kill(number, signal.SIGSTOP)
traced = child()
told = call("ptrace", 16, traced, 0, 0)
os.waitpid(traced, 0)
seized = child()
call("ptrace", 0x4206, seized, 0, 0)
if not os.fork():
    while True:
        for number in stopped:
            os.kill(number, signal.SIGCONT)
            os.kill(number, signal.SIGSTOP)
tell(told)
while True:
    time.sleep(1)
"""
DISK = """
def churn(number):
    while True:
        with open("/tmp/churn%d" % number, "wb", buffering=0) as file:
            for _ in range(16):
                file.write(os.urandom(1 << 20))
                os.fsync(file.fileno())
for number in range(4):
    if not os.fork():
        churn(number)
time.sleep(0.5)
tell(1)
while True:
    time.sleep(1)
"""
FORKING = """
tell(1)
def breed(depth):
    while True:
        try:
            number = os.fork()
        except OSError:
            time.sleep(0.001)
            continue
        if not number:
            if depth < 3:
                breed(depth + 1)
            os._exit(0)
        if depth:
            os._exit(0)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
breed(0)
"""
WAITING = """
import threading
def lock():
    fd = os.open("/tmp/lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    time.sleep(1000)
for _ in range(10):
    if not os.fork():
        lock()
r, w = os.pipe()
pairs = [socket.socketpair() for _ in range(50)]
for one, _ in pairs:
    threading.Thread(target=one.recv, args=(1,)).start()
for _ in range(50):
    threading.Thread(target=os.read, args=(r, 1)).start()
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
tell(1)
while True:
    pass
"""
ATTACKS = {"vfork": VFORKED, "stopped": STOPPED, "disk": DISK, "forking": FORKING, "waiting": WAITING}


def keeper_answers(desk: Desk) -> Callable[[], Awaitable[float]]:
    async def measure() -> float:
        start = time.monotonic()
        await desk.usage()
        return time.monotonic() - start

    return measure


async def pause(desk: Desk) -> str | None:
    """Try to pause a desk; return the reason if it fails."""
    try:
        await desk.pause()
    except DeskError as e:
        return str(e)
    return None


def scheduled(desk: Desk) -> int:
    total = 0
    for pid in Cgroup(find_hierarchies(), desk.id).list_pids():
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[2])
    return total


@pytest.mark.sample(2)
@falls_without(
    "desks that stop",
    Removal("keeper/operations.py", "    tracked.room.cgroup.freeze(True)\n", ""),
    Removal("keeper/operations.py", "    while not tracked.room.cgroup.is_frozen():\n", "    while False:\n"),
    cases="disk | forking | vfork | waiting",
)
@no_guard("it stands still without us, too", cases="stopped")
@pytest.mark.parametrize("attack", list(ATTACKS))
async def test_a_desk_that_resists_is_paused_or_reported_to_its_owner(fresh: Open, launch: Launch, attack: str) -> None:
    async with fresh(Spec(pids=300, memory=512 * MIB)) as desk, fresh(Spec()) as other:
        await launch(desk, ATTACKS[attack])
        paused = 0
        for _ in range(10):
            start = time.monotonic()
            refused = await pause(desk)
            assert refused is None or "did not stop" in refused
            if refused is None:
                paused += 1
                before = (await desk.usage()).cpu, scheduled(desk)
                await anyio.sleep(0.1)
                assert ((await desk.usage()).cpu, scheduled(desk)) == before, "something ran while it was paused"
                await desk.resume()
            assert time.monotonic() - start < BOUND
            assert await keeper_answers(other)() < BOUND
        assert paused > 0, "it never stopped: the attack shows how to stay awake"


@falls_without("an end to paused desks that resist", *NEVER_THAWED, cases="disk | forking | waiting")
@no_guard("it cannot always be frozen, and then need not be thawed to burn", cases="stopped | vfork")
@pytest.mark.parametrize("attack", list(ATTACKS))
async def test_a_desk_that_resists_burns_while_it_is_paused(
    runtime: KeeperRuntime, launch: Launch, attack: str
) -> None:
    desk = await runtime.open(Spec(pids=300, memory=512 * MIB))
    try:
        await launch(desk, ATTACKS[attack])
        await pause(desk)
    finally:
        with anyio.fail_after(20):
            await runtime.burn(desk.id)
    assert not Cgroup(find_hierarchies(), desk.id).list_pids()
    with pytest.raises(DeskGone):
        await desk.resume()


@falls_without("desks that stop")
async def test_a_paused_desk_cannot_wake_itself(fresh: Open, launch: Launch) -> None:
    code = """
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
if not os.fork():
    while True:
        for number in filter(str.isdigit, os.listdir("/proc")):
            attempt(os.kill, int(number), signal.SIGCONT)
tell(1)
while True:
    signal.pause()
"""
    async with fresh(Spec()) as desk:
        await launch(desk, code)
        await desk.pause()
        before = (await desk.usage()).cpu
        await anyio.sleep(1)
        assert (await desk.usage()).cpu == before
        await desk.resume()
        assert (await desk.run(["true"])).ok


@no_guard("the windows of its link, which other attacks show")
async def test_a_paused_desk_does_not_grow_its_owner(fresh: Open, launch: Launch) -> None:
    async with fresh(Spec()) as desk:
        process = await desk.start(["sh", "-c", "yes"], stdin=True)
        await anyio.sleep(0.1)
        await desk.pause()
        descriptors, data = len(os.listdir("/proc/self/fd")), bytes(64 * MIB)
        before = reset_peak()
        with anyio.move_on_after(0.5):
            await process.send(data)
        with anyio.move_on_after(0.5):
            async with anyio.create_task_group() as tasks:
                for _ in range(50):
                    tasks.start_soon(desk.run, ["true"])
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 2
        assert peak() - before < 32 * MIB
        await desk.resume()
        await process.kill()
        assert (await desk.run(["echo", "here"])).text == "here\n"


@no_guard("it must pass: that a pause is not an error")
async def test_a_sudo_call_in_a_paused_desk_waits(fresh: Open, runtime: KeeperRuntime) -> None:
    async with fresh(Spec(root=True)) as desk:
        process = await desk.start(["sudo", "id", "-u"])
        refused = await pause(desk)
        if refused is not None:  # the guest of root was just being started
            assert "try again" in refused
            await anyio.sleep(0.5)
            await desk.pause()
        await anyio.sleep(0.3)
        await desk.resume()
        assert [data async for _, data in process.output()] == [b"0\n"]
