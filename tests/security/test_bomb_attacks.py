"""Attacks that exhaust resources: another desk still answers, and the attacking desk burns at once."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from hotdesk.config import MIB, Config
from hotdesk.desk.owner.runtime import KeeperRuntime
from hotdesk.desk.seam import Desk, Spec
from hotdesk.errors import DeskGone
from hotdesk.linux.cgroup import Cgroup, find_hierarchies
from tests.origins import WALLED, Origin
from tests.security.conftest import Attack, Init, Launch, Open, Owning, Program
from tests.security.guards import FIRST_PROCESS_SPARED, Removal, falls_without, no_guard
from tests.security.test_lifetime_attacks import until

pytestmark = [pytest.mark.container, pytest.mark.timeout(90)]

DESCRIPTORS_MOST = 20_000
SMALL = Spec(memory=128 * MIB, disk=32 * MIB, pids=64, cpus=0.5)
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
SOCKETS = """
family, kind = (getattr(socket, name) for name in given["socket"])
address = ("127.0.0.1" if family == socket.AF_INET else "::1", 0)
kept, piece = [], bytes(given["piece"])

def made():
    one = socket.socket(family, kind)
    kept.append(one)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF) if given["buffers"] else ():
        one.setsockopt(socket.SOL_SOCKET, option, given["buffers"])
    return one

def fill(one):
    one.setblocking(False)
    try:
        while True:
            one.send(piece)
    except OSError:
        pass

def pair():
    client = made()
    client.setblocking(False)
    client.connect_ex(server.getsockname())
    kept.append(server.accept()[0])
    fill(client)
    fill(kept[-1])

def datagrams():
    taker = made()
    taker.bind(address)
    for _ in range(100):  # what finds no room is dropped without a word
        server.sendto(piece, taker.getsockname())

children = [attempt(os.fork) for _ in range(5)]  # 32 processes flood together
server = made()
server.bind(address)
if kind == socket.SOCK_STREAM:
    server.listen(64)
    server.settimeout(5)
while True:
    attempt(pair if kind == socket.SOCK_STREAM else datagrams)
"""
FLOODS: dict[str, dict[str, object]] = {
    "TCP": {"socket": ("AF_INET", "SOCK_STREAM"), "piece": 1 << 16, "buffers": 0},
    "TCP in small pieces": {"socket": ("AF_INET", "SOCK_STREAM"), "piece": 1000, "buffers": 0},
    "TCP on IPv6 with wide buffers": {"socket": ("AF_INET6", "SOCK_STREAM"), "piece": 1 << 16, "buffers": 1 << 22},
    "UDP": {"socket": ("AF_INET", "SOCK_DGRAM"), "piece": 60_000, "buffers": 1 << 22},
}
"""Sockets of many processes; the kernel lets each queue one packet regardless of the limit."""
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
SPIN = """
begun, pipes = time.monotonic(), []
for _ in range(4):
    r, w = os.pipe()
    if not os.fork():
        while time.monotonic() - begun < given["seconds"]:
            pass
        os.write(w, b"%f" % time.process_time())
        os._exit(0)
    pipes.append(r)
tell([sum(float(os.read(r, 20)) for r in pipes), time.monotonic() - begun])
"""
DESCRIPTORS = """
kept = []
try:
    while len(kept) < 100000:
        kept.append(os.open("/dev/null", os.O_RDONLY))
    why = "room for all"
except OSError as e:
    why = name(e.errno)
tell([len(kept), why])
"""


@dataclass(frozen=True, slots=True)
class Bomb:
    """A desk that takes all it can get, as seen from outside."""

    desk: Desk
    cgroup: Cgroup
    init: int
    keeper: int
    begun: float

    def tasks(self) -> bool:
        return 60 <= int((self.cgroup.get_folder("pids") / "pids.current").read_text()) <= SMALL.pids

    def memory(self) -> bool:
        """Return whether it stayed within its memory limit; files in memory may take half of it."""
        name = "memory.peak" if self.cgroup.version == 2 else "memory.max_usage_in_bytes"
        return 64 * MIB < int((self.cgroup.get_folder("memory") / name).read_text()) <= SMALL.memory

    def descriptors(self) -> bool:
        """Return whether each of its processes stayed within the limit of open files."""
        held = [len(os.listdir(f"/proc/{pid}/fd")) for pid in self.cgroup.list_pids()]
        return 10_000 < max(held) <= DESCRIPTORS_MOST

    def processors(self) -> bool:
        """Return whether it used no more processor time than it may, once there is something to compare."""
        if time.monotonic() - self.begun < 2:
            return False
        used = sum(processor_seconds(pid) for pid in self.cgroup.list_pids())
        return used <= SMALL.cpus * (time.monotonic() - self.begun) + 0.3

    def disk(self) -> bool:
        pool = Path(f"/proc/{self.keeper}/root", *Path(pool_of(self.keeper)).parts[1:], self.desk.id)
        used = sum(entry.lstat().st_blocks * 512 for entry in pool.rglob("*"))
        return 24 * MIB < used <= SMALL.disk + MIB

    def gate(self) -> bool:
        """Return whether the door accepted no more of its connections than one desk may have."""
        children = Path(f"/proc/{self.keeper}/task/{self.keeper}/children").read_text().split()
        door = next(pid for pid in children if b"door" in Path(f"/proc/{pid}/cmdline").read_bytes())
        held = [os.readlink(f"/proc/{door}/fd/{fd}") for fd in os.listdir(f"/proc/{door}/fd")]
        return 200 < len([link for link in held if link.startswith("socket:")]) < 256 + 10

    def contained(self) -> bool:
        """Return whether its desk ended, or stayed within its limits of memory and threads."""
        try:
            threads = int((self.cgroup.get_folder("pids") / "pids.current").read_text())
            limit = int((self.cgroup.get_folder("pids") / "pids.max").read_text())
            return self.cgroup.read_memory_use().total <= SMALL.memory and threads <= limit < 2000
        except OSError:
            return True

    def other(self) -> bool:
        """Check nothing: a separate test measures what this bomb takes."""
        return True


def processor_seconds(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def pool_of(keeper: int) -> str:
    lines = Path(f"/proc/{keeper}/mountinfo").read_text().splitlines()
    return next(line.split()[4] for line in lines if " - btrfs " in line)


MEASURED: dict[str, Callable[[Bomb], bool]] = {
    "forks": Bomb.tasks,
    "threads": Bomb.tasks,
    "memory": Bomb.memory,
    "memory in files": Bomb.memory,
    "descriptors": Bomb.descriptors,
    "processors": Bomb.processors,
    "disk": Bomb.disk,
    "calls at the gate": Bomb.gate,
}


@pytest.mark.sample(6)
@falls_without("so many calls at a gate", cases="calls at the gate")
@falls_without(
    "a number of processes",
    Removal(
        "linux/cgroup.py",
        'KERNEL_TCP, optional=True)\n        self.put("pids", "pids.max", limits.pids)',
        'KERNEL_TCP, optional=True)\n        self.put("pids", "pids.max", limits.pids * 3)',
    ),
    cases="forks | threads",
)
@falls_without(
    "memory",
    Removal("linux/cgroup.py", "self.limit_memory_v1(limits.memory)", "self.limit_memory_v1(limits.memory * 2)"),
    Removal("room/layout.py", "return memory // 2", "return memory * 4"),
    cases="memory | memory in files",
)
@no_guard("a busy machine gives it no more than its limit; the test of a desk's share decides", cases="processors")
@falls_without(
    "disk",
    Removal("room/btrfs.py", "LIMIT_MAX_REFERENCED, most, 0, 0, 0)", "LIMIT_MAX_REFERENCED, most * 5, 0, 0, 0)"),
    Removal("room/disk.py", 'f"size={size},nr_inodes={inodes},', 'f"size={size * 5},nr_inodes={inodes * 50},'),
    cases="disk",
)
@falls_without("an end to bombs", *FIRST_PROCESS_SPARED, cases="output | inodes | descriptors | loopback | signals")
@pytest.mark.parametrize("bomb", BOMBS)
async def test_a_bomb_stays_within_its_limits_while_another_desk_answers_and_then_burns(
    fresh: Open,
    neighbour: Desk,
    runtime: KeeperRuntime,
    settings: Config,
    init: Init,
    program: Program,
    bomb: str,
    origin: Origin,
) -> None:
    async with fresh(SMALL) as desk:
        lit = Bomb(
            desk, Cgroup(find_hierarchies(), desk.id), init(settings, desk), runtime.keeper.pid, time.monotonic()
        )
        await desk.start(program(FUSE + BOMBS[bomb]), stdin=False)
        await anyio.sleep(0.7)
        begun = time.monotonic()
        assert (await neighbour.run(["python3", "-c", "print(6 * 7)"], timeout=10)).stdout == b"42\n"
        answered = time.monotonic()
        assert answered - begun < 5
        held = Bomb.contained if origin is WALLED["gvisor"] else MEASURED.get(bomb, Bomb.other)
        await until(lambda: held(lit), 6)  # the bomb has taken what it may
        await anyio.sleep(0.7)  # and must not take more from here on
        assert held(lit)
        answered = time.monotonic()
        await runtime.burn(desk.id)
        assert time.monotonic() - answered < 10
        assert lit.cgroup.list_pids() == set()


@falls_without(
    "word of what memory killed", Removal("link/desk.py", "done.out_of_memory or self.kills > kills", "False")
)
async def test_a_memory_bomb_is_killed_and_its_desk_survives(fresh: Open, program: Program) -> None:
    async with fresh(SMALL) as desk:
        done = await desk.run(program(BOMBS["memory"]), timeout=30)
        assert (done.signal, done.out_of_memory) == (9, True)
        assert (await desk.run(["true"], timeout=10)).ok


@pytest.mark.sample(1)
@falls_without("disk")
@pytest.mark.parametrize("disk_in", ["disk", "memory"])
async def test_a_disk_is_limited_in_bytes_and_in_inodes(
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


@falls_without(
    "processor time", Removal("linux/cgroup.py", '        self.put("cpu", "cpu.cfs_quota_us", limits.quota)\n', "")
)
async def test_a_desk_gets_its_share_of_the_processors_and_no_more(fresh: Open, attack: Attack, origin: Origin) -> None:
    async with fresh(Spec(cpus=0.25)) as desk:
        cgroup, begun = Cgroup(find_hierarchies(), desk.id), time.monotonic()
        before = cgroup.read_cpu_seconds()
        took, passed = await attack(desk, SPIN, seconds=2)
        if origin is WALLED["gvisor"]:  # a sentry counts the time of programs by its own clock
            took, passed = cgroup.read_cpu_seconds() - before, time.monotonic() - begun
        assert took <= 0.25 * passed + 0.3


@pytest.mark.sample(1)
@falls_without("a limit for socket buffers", cases="UDP")
@falls_without(
    "desks whose sockets have too much unread are burnt",
    Removal("keeper/keeper.py", "                self.burn_flooded()\n", ""),
    cases="TCP | TCP in small pieces | TCP on IPv6 with wide buffers",
)
@pytest.mark.parametrize(
    "flood", ["TCP", "UDP", *(pytest.param(name, marks=pytest.mark.long) for name in [*FLOODS][1:3])]
)
async def test_unread_data_of_many_sockets_stays_within_a_desks_memory(
    fresh: Open, program: Program, flood: str
) -> None:
    """Uses the kernel's own count of buffers: on cgroup v1 they are not part of a desk's memory."""
    async with fresh(Spec(memory=256 * MIB)) as desk:
        memory = Cgroup(find_hierarchies(), desk.id).get_folder("memory")
        count = (
            memory / "memory.kmem.tcp.max_usage_in_bytes"
            if find_hierarchies().version == 1
            else memory / "memory.current"
        )
        process = await desk.start(program(SOCKETS, **FLOODS[flood]), stdin=False)
        most, end = 0, time.monotonic() + 8
        with suppress(OSError):  # the desk is burning
            while time.monotonic() < end and most < 256 * MIB:
                most = max(most, int(count.read_text()))
                await anyio.sleep(0.01)
        with suppress(DeskGone):
            await process.kill()
        assert 16 * MIB < most < 256 * MIB


@no_guard("this machine's own hard limit is the same number, and its root may not raise it")
async def test_file_descriptors_are_limited(fresh: Open, attack: Attack) -> None:
    async with fresh(Spec()) as desk:
        taken, why = await attack(desk, DESCRIPTORS)
        assert (taken <= DESCRIPTORS_MOST, why) == (True, "EMFILE")
        assert (await desk.run(["true"], timeout=10)).ok


@no_guard("the machine keeps the table that the first keeper made larger")
async def test_a_desk_runs_out_of_memory_before_it_fills_the_hosts_file_table(fresh: Open, launch: Launch) -> None:
    """A full table refuses files to every user of the host except root, and to every other desk."""
    async with fresh(Spec()) as desk:
        folder = Cgroup(find_hierarchies(), desk.id).get_folder("memory")
        usage = folder / ("memory.usage_in_bytes" if find_hierarchies().version == 1 else "memory.current")
        before = int(usage.read_text())
        process, opened = await launch(desk, OPEN_FILES)
        each = (int(usage.read_text()) - before) / opened
        await process.kill()
        most = min(Spec().memory / each, Spec().pids * 20_000)
        assert most < int(Path("/proc/sys/fs/file-max").read_text())


@falls_without(
    "a door with patience and many files",
    Removal("linux/rlimits.py", "    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))\n", ""),
    Removal(
        "door/process.py",
        "                await asyncio.sleep(ACCEPT_RETRY_S)  # too many files are open:",
        "                return  #",
    ),
)
async def test_connections_held_at_other_gates_do_not_block_a_desks_gate(
    settings: Config, owning: Owning, launch: Launch
) -> None:
    """Runs under the limit of 1024 open files that most shells set and a door inherits."""
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
            assert (await own.run(ask, timeout=30)).stdout == b"403"
            for desk in others:
                await runtime.burn(desk.id)
            assert (await own.run(ask, timeout=30)).stdout == b"403"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
