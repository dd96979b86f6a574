"""Exceed each limit in small desks, and judge the result. At these sizes a missing limit does no harm."""

from __future__ import annotations

import os

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Done, Spec
from hotdesk.doctor.measure import (
    Finding,
    JudgedMeasure,
    Measure,
    SilentProbeError,
    report_failure,
    report_flaws,
    report_pass,
    report_untested,
)
from hotdesk.doctor.probes import LIMIT, SIGNALS, ProbeResult, build_command, read_result
from hotdesk.doctor.view import iterate_limits, open_root, read
from hotdesk.linux.cgroup import PERIOD, Cgroup

SMALL = Spec(memory=64 * MIB, disk=16 * MIB, pids=24, deadline=60, idle=60)
SHORT = Spec(memory=64 * MIB, disk=16 * MIB, cpus=0.2, deadline=1.5, idle=60)
OVER = 3
"""The multiple of its limit that a desk tries to use."""
_KILLED = 128 + 9
_SOCKET_BUFFERS = 64 * MIB
"""Maximum unread bytes of a desk's TCP sockets. The real limit is half of that, as a socket may exceed it a little."""
PROBE_TIMEOUT_S = 20.0

FILL = """
written, why = 0, "room for all"
try:
    with open("/tmp/fill", "wb", buffering=0) as file:
        while written < arguments["most"]:
            written += file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
except OSError as e:
    why = name(e.errno)
tell({"written": written, "why": why})
"""
FORK = """
children = []
try:
    while len(children) < arguments["most"]:
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
        children.append(child)
    why = "room for all"
except OSError as e:
    why = name(e.errno)
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
tell({"forked": len(children), "why": why})
"""
FLOOD = """
server = socket.create_server(("127.0.0.1", 0), backlog=64)
queued = 0
for _ in range(150):
    if queued > arguments["most"]:
        break
    try:
        client = socket.create_connection(server.getsockname(), timeout=1)
        references += [client, server.accept()[0]]
        client.setblocking(False)
        while queued <= arguments["most"]:
            queued += client.send(bytes(1 << 16))
    except OSError:
        continue
tell({"queued": queued})
"""
BOMB = """
for _ in range(arguments["most"] >> 20):
    references.append(bytearray(os.urandom(1 << 20)))
tell({"kept": len(references)})
"""
SPIN = ["sh", "-c", "while :; do :; done"]


@dataclass(frozen=True, slots=True)
class Strain:
    """Observations of a small desk that tried to exceed its limits."""

    disk: Done
    disk_bytes: int
    """Bytes of the file that filled the disk, as seen from the host."""
    disk_kind: str
    forks: Done
    sockets: Done
    bomb: Done
    oom_kills: int
    version: int
    cgroup: dict[str, str]


@dataclass(frozen=True, slots=True)
class Spun:
    """The cgroup's counters for a program that uses a whole CPU."""

    version: int
    cgroup: dict[str, str]
    throttled: int


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals that a program queued, and the account they were charged to."""

    result: ProbeResult
    roots: int
    """By how many signals the queue of the host's root grew."""


async def exhaust(desk: Desk, cgroup: Cgroup, first: int, disk_kind: str, timeout: float = PROBE_TIMEOUT_S) -> Strain:
    async def take(code: str, most: int) -> Done:
        return await desk.run(build_command(code, most=most), timeout=timeout, output_limit=LIMIT)

    disk = await take(FILL, OVER * SMALL.disk)
    with open_root(first) as inside:
        fd = inside.open(b"tmp/fill", os.O_PATH | os.O_NOFOLLOW)
        disk_bytes = os.fstat(fd).st_size
        os.close(fd)
    return Strain(
        disk=disk,
        disk_bytes=disk_bytes,
        disk_kind=disk_kind,
        forks=await take(FORK, OVER * SMALL.pids),
        sockets=await take(FLOOD, _SOCKET_BUFFERS + 16 * MIB),
        bomb=await take(BOMB, OVER * SMALL.memory),
        oom_kills=cgroup.count_oom_kills(),
        version=cgroup.version,
        cgroup=dict(iterate_limits(cgroup)),
    )


def look_at_spinning(cgroup: Cgroup) -> Spun:
    stat = dict(line.split()[:2] for line in read(cgroup.get_folder("cpu") / "cpu.stat").splitlines())
    return Spun(cgroup.version, dict(iterate_limits(cgroup)), int(stat.get("nr_throttled", 0)))


# -- judgements ------------------------------------------------------------------------------------------------


def _find_mismatches(cgroup: dict[str, str], limits: dict[str, str]) -> list[str]:
    """Return the files of a cgroup with a value other than the expected one."""
    return [f"{name} is {cgroup.get(name) or 'missing'}" for name, text in limits.items() if cgroup.get(name) != text]


def _judge_memory(strained: Strain) -> Finding:
    name = "memory.limit_in_bytes" if strained.version == 1 else "memory.max"
    flaws = _find_mismatches(strained.cgroup, {name: str(SMALL.memory)})
    if strained.bomb.exit_code == 0:
        flaws.append(
            f"the desk could allocate {OVER * SMALL.memory // MIB} MiB, and its limit is {SMALL.memory // MIB} MiB"
        )
    elif strained.oom_kills < 1:
        flaws.append(
            f"the program that allocates too much ended with exit code {strained.bomb.exit_code}, not by the limit"
        )
    return report_flaws(flaws, f"a desk of {SMALL.memory // MIB} MiB that allocates more is killed at its limit")


def _judge_processes(strained: Strain) -> Finding:
    flaws = _find_mismatches(strained.cgroup, {"pids.max": str(SMALL.pids)})
    result = read_result(strained.forks)
    if result.get_number("forked") >= SMALL.pids or result.get_word("why") != "EAGAIN":
        flaws.append(f"the desk could fork {result.get_number('forked')} times, then got {result.get_word('why')}")
    return report_flaws(
        flaws,
        f"a desk limited to {SMALL.pids} processes could fork {result.get_number('forked')} times, then got EAGAIN",
    )


def judge_disk(strained: Strain) -> Finding:
    result = read_result(strained.disk)
    size = (
        f"a file could grow to {strained.disk_bytes / MIB:.0f} MiB on a disk of {SMALL.disk // MIB} MiB "
        f"({strained.disk_kind})"
    )
    if result.get_word("why") in ("EDQUOT", "ENOSPC") and strained.disk_bytes <= SMALL.disk + MIB:
        return report_pass(f"{size}, then {result.get_word('why')}")
    return report_failure(f"{size}: {result.get_word('why')}")


def _judge_sockets(strained: Strain) -> Finding:
    """Judge how much a desk may leave unread. On cgroup v2 that is its memory, and the test may be killed for it."""
    if strained.version == 2 and strained.sockets.exit_code == _KILLED and strained.oom_kills > 1:
        return report_pass(
            "unread data counts as memory of the desk: the program that sent too much was killed at the memory limit"
        )
    queued = read_result(strained.sockets).get_number("queued")
    flaws = [f"the desk could leave {queued // MIB} MiB of received data unread"] if queued > _SOCKET_BUFFERS else []
    limit = strained.cgroup.get("memory.kmem.tcp.limit_in_bytes", "")
    if strained.version == 1 and not limit and not flaws:
        return report_untested("this kernel has no memory.kmem.tcp.limit_in_bytes, and the test did not reach a limit")
    if limit and int(limit) > _SOCKET_BUFFERS:
        flaws.append(f"memory.kmem.tcp.limit_in_bytes is {limit}, more than {_SOCKET_BUFFERS}")
    if queued < MIB:
        raise SilentProbeError(f"the test left only {queued} bytes of received data unread, less than {MIB}")
    return report_flaws(flaws, f"the desk could leave {queued // MIB} MiB of received data unread, and no more")


def judge_cpu(usage: Spun) -> Finding:
    quota = str(int(SHORT.cpus * PERIOD))
    expected = {"cpu.cfs_quota_us": quota, "cpu.cfs_period_us": str(PERIOD)}
    flaws = _find_mismatches(usage.cgroup, expected if usage.version == 1 else {"cpu.max": f"{quota} {PERIOD}"})
    if not flaws and usage.throttled == 0:
        return report_untested("the CPU quota is set, but this machine was too busy for the desk to reach it")
    return report_flaws(flaws, f"a desk limited to {SHORT.cpus:g} CPUs was throttled {usage.throttled} times")


def judge_signals(observation: Signals) -> Finding:
    sent = observation.result.get_number("signals")
    flaws = [f"{sent} signals could be queued; {SIGNALS} are allowed"] if sent > SIGNALS else []
    flaws += (
        [f"{observation.roots} of the signals were charged to the host's root"] if observation.roots > sent // 2 else []
    )
    return report_flaws(flaws, f"{sent} signals could be queued, and no more; none were charged to the host's root")


_CGROUP = "enable the cgroup controllers memory, pids and cpu in the kernel; /proc/cgroups lists them"
CHECKS: tuple[JudgedMeasure[Strain], ...] = (
    JudgedMeasure(
        Measure(
            "memory",
            "limits",
            "a desk cannot use more than its memory limit",
            "tested from the host: read the limit and count of kills in the cgroup, after a program in the desk "
            "allocates too much",
            _CGROUP,
        ),
        _judge_memory,
    ),
    JudgedMeasure(
        Measure(
            "processes",
            "limits",
            "a desk cannot have more processes than its limit",
            "tested from the host: read the limit in the cgroup; from inside: fork until refused",
            _CGROUP,
        ),
        _judge_processes,
    ),
    JudgedMeasure(
        Measure(
            "disk",
            "limits",
            "a desk cannot write more than the size of its disk",
            "tested from the host: read the size of a file that a program in the desk writes until refused",
            "disk quotas are off: when no desk is open, remove pool.btrfs from the state folder, or "
            'set disk = "ext4" in config.toml',
        ),
        judge_disk,
    ),
    JudgedMeasure(
        Measure(
            "socket-buffers",
            "limits",
            "the unread socket buffers of a desk are limited",
            "tested from inside: send data over TCP connections and do not read it; from the host: read the limit in "
            "the cgroup",
            _CGROUP,
        ),
        _judge_sockets,
    ),
)
CPU = JudgedMeasure(
    Measure(
        "cpu",
        "limits",
        "a desk cannot use more than its CPU quota",
        "tested from the host: read the quota and throttled periods in the cgroup while a program in the desk keeps a "
        "CPU busy",
        _CGROUP,
    ),
    judge_cpu,
)
SIGNALLED = JudgedMeasure(
    Measure(
        "signals",
        "limits",
        "queued signals of a desk are limited, and not charged to the host's root",
        "tested from inside: queue signals until refused; from the host: read SigQ of root before and after",
        "reinstall hotdesk",
    ),
    judge_signals,
)
