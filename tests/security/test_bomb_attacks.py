"""A desk that takes all it can get harms nobody else: another still answers, and it burns at once."""

from __future__ import annotations

import resource
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.oci import ContainerRuntime
from hotdesk.desk.seam import Desk, Process, Spec

Attack = Callable[..., Awaitable[Any]]
Program = Callable[..., list[str]]
Launch = Callable[..., Awaitable[tuple[Process, Any]]]
Owning = Callable[[Config], AbstractAsyncContextManager[ContainerRuntime]]
Open = Callable[[Spec], AbstractAsyncContextManager[Desk]]

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

SMALL = Spec(memory=128 * MIB, disk=32 * MIB, pids=64, cpus=1)
BOMBS = {
    "forks": "while True:\n    attempt(os.fork)",
    "memory": "kept = []\nwhile True:\n    kept.append(bytearray(os.urandom(1 << 20)))",
    "memory in files": "while True:\n    attempt(put_new, '/dev/shm/', 1 << 20)",
    "disk": "while True:\n    attempt(put_new, '/tmp/', 1 << 20)",
    "inodes": "while True:\n    attempt(put_new, '/tmp/', 0)",
    "output": "while True:\n    os.write(1, bytes(1 << 16))\n    os.write(2, bytes(1 << 16))",
    "descriptors": "kept = []\nwhile True:\n    attempt(lambda: kept.append(os.open('/dev/null', os.O_RDONLY)))",
    "threads": "import _thread\nwhile True:\n    try:\n        _thread.start_new_thread(time.sleep, (99,))\n"
    "    except RuntimeError:\n        pass",
    "processors": "for _ in range(30):\n    if not os.fork():\n        break\nwhile True:\n    pass",
    "loopback": "s = socket.create_server(('127.0.0.1', 0))\nwhile True:\n    attempt(dial, s.getsockname())",
    "calls at the gate": "while True:\n    attempt(dial, ('127.0.0.1', 3128))",
    "signals": "signal.signal(15, signal.SIG_IGN)\nwhile True:\n    attempt(os.kill, -1, 15)",
}
FUSE = """
held = []

def dial(address):
    held.append(socket.create_connection(address, 1))

def put_new(folder, size):
    with open(folder + str(time.monotonic_ns()), "wb") as file:
        file.write(bytes(size))

"""
FILL = """
written = 0
try:
    with open("/tmp/fill", "wb", buffering=0) as file:
        while written < given["most"]:
            written += file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
except OSError as e:
    why = name(e.errno)
else:
    why = "room for all"
tell([written, why])
"""
MANY = """
count, why = 0, "room for all"
try:
    while count < given["most"]:
        count += 1
        os.close(os.open("/tmp/%0200d" % count, os.O_CREAT | os.O_WRONLY))
except OSError as e:
    why = name(e.errno)
tell([count, why])
"""
HOLD = """
kept = [socket.create_connection(("127.0.0.1", 3128), 2) for _ in range(given["count"])]
tell(len(kept))
while True:
    for s in kept:
        attempt(s.send, b"x")
    time.sleep(1)
"""
OPEN_FILES = """
pipes = []
for _ in range(10):
    r, w = os.pipe()
    if not os.fork():
        count = 0
        try:
            while True:
                os.open("/dev/null", os.O_RDONLY)
                count += 1
        except OSError:
            os.write(w, b"%d" % count)
        time.sleep(30)
        os._exit(0)
    pipes.append(r)
tell(sum(int(os.read(r, 20)) for r in pipes))
time.sleep(30)
"""
DESCRIPTORS = """
kept = []
try:
    while len(kept) < 100000:
        kept.append(os.open("/dev/null", os.O_RDONLY))
except OSError as e:
    tell([len(kept), name(e.errno)])
"""


@pytest.mark.parametrize("bomb", BOMBS)
async def test_another_desk_answers_and_the_bomb_burns(
    fresh: Open, neighbour: Desk, runtime: ContainerRuntime, program: Program, bomb: str
) -> None:
    async with fresh(SMALL) as desk:
        await desk.start(program(FUSE + BOMBS[bomb]), stdin=False)
        await anyio.sleep(0.7)
        begun = time.monotonic()
        assert (await neighbour.run(["python3", "-c", "print(6 * 7)"], timeout=10)).stdout == b"42\n"
        answered = time.monotonic()
        await runtime.burn(desk.id)
        assert answered - begun < 5
        assert time.monotonic() - answered < 10


async def test_a_fork_bomb_stays_within_its_number(fresh: Open, program: Program) -> None:
    async with fresh(SMALL) as desk:
        await desk.start(program(BOMBS["forks"]), stdin=False)
        await anyio.sleep(0.7)
        folders = [Path(f"/sys/fs/cgroup/{name}hotdesk-{desk.id}/pids.current") for name in ("pids/", "")]
        count = next(int(file.read_text()) for file in folders if file.exists())
        assert 30 < count <= 64


async def test_a_memory_bomb_is_killed_and_its_desk_lives(fresh: Open, program: Program) -> None:
    async with fresh(SMALL) as desk:
        done = await desk.run(program(BOMBS["memory"]), timeout=30)
        assert (done.signal, done.out_of_memory) == (9, True)
        assert (await desk.run(["true"], timeout=10)).ok
        peak = Path(f"/sys/fs/cgroup/memory/hotdesk-{desk.id}/memory.max_usage_in_bytes")
        if peak.exists():
            assert int(peak.read_text()) <= 128 * MIB


@pytest.mark.parametrize("disk_in", ["disk", "memory"])
async def test_a_disk_is_full_at_its_size_in_bytes_and_in_names(
    fresh: Open, attack: Attack, settings: Config, disk_in: str
) -> None:
    spec = Spec(disk=32 * MIB, disk_in="memory" if disk_in == "memory" else "disk")
    async with fresh(spec) as desk:
        written, why = await attack(desk, FILL, most=200 * MIB)
        assert why in ("EDQUOT", "ENOSPC")
        assert written <= 33 * MIB
        assert (await desk.run(["true"], timeout=10)).ok
    async with fresh(spec) as desk:
        _, why = await attack(desk, MANY, most=120_000)
        assert why in ("EDQUOT", "ENOSPC")


async def test_descriptors_end_at_their_limit(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec()) as desk:
        assert (await attack(desk, DESCRIPTORS))[1] == "EMFILE"
        assert (await desk.run(["true"], timeout=10)).ok


async def test_memory_runs_out_before_the_hosts_table_of_open_files(fresh: Open, launch: Launch) -> None:
    """A full table refuses every file to every user of the host but root, and to every other desk."""
    async with fresh(Spec()) as desk:
        folder = Path(f"/sys/fs/cgroup/memory/hotdesk-{desk.id}")
        usage = folder / "memory.usage_in_bytes" if folder.exists() else memory_v2(desk)
        before = int(usage.read_text())
        process, opened = await launch(desk, OPEN_FILES)
        each = (int(usage.read_text()) - before) / opened
        await process.kill()
        most = min(Spec().memory / each, Spec().pids * 20_000)
        assert most < int(Path("/proc/sys/fs/file-max").read_text())


def memory_v2(desk: Desk) -> Path:
    """Give the file that tells a desk's memory on cgroup v2."""
    return Path(f"/sys/fs/cgroup/hotdesk-{desk.id}/memory.current")


async def test_calls_held_at_other_gates_do_not_shut_a_desks_own(
    settings: Config, owning: Owning, launch: Launch
) -> None:
    """Under the limit of 1024 open files that most shells give, which a door inherits."""
    ask = ["curl", "-s", "-m", "8", "-w", "%{http_code}", "-o", "/dev/null", "-x", "http://127.0.0.1:3128", "http://x/"]
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, usual[1]))
    try:
        async with owning(settings) as runtime:
            own = await runtime.open(SMALL)
            assert (await own.run(ask, timeout=30)).stdout == b"403"
            others = [await runtime.open(SMALL) for _ in range(5)]
            for desk in others:
                await launch(desk, HOLD, count=256)
            await anyio.sleep(0.5)
            await own.run(ask, timeout=2)
            for desk in others:
                await runtime.burn(desk.id)
            assert (await own.run(ask, timeout=30)).stdout == b"403"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
