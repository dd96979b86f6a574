"""Files mounted over /proc that show a desk its own limits and usage, instead of the whole host's."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable

from hotdesk.desk.room import cpu_set
from hotdesk.linux.cgroup import TICKS, CpuTimes, MemoryUse

EMPTY_FILES = """
cmdline config.gz diskstats iomem ioports interrupts softirqs keys key-users modules locks partitions zoneinfo
buddyinfo schedstat sched_debug timer_list
""".split()
"""Entries of /proc with facts about the host; shown empty. Those only the host's root can read are not listed."""
EMPTY_FOLDERS = """
acpi asound bus driver fs irq pressure scsi
""".split()
STEADY_FILES = {"loadavg": b"0.00 0.00 0.00 1/1 1\n"}
"""Files that programs need, shown with constant content so that they reveal nothing."""
OWN_FILES = ("meminfo", "cpuinfo", "stat", "swaps")
"""Files with the desk's own figures, which programs use to size themselves."""
COVERED_HERE = frozenset(name for name in (*EMPTY_FILES, *EMPTY_FOLDERS, *OWN_FILES) if os.path.exists(f"/proc/{name}"))
"""Those of the names above that exist on this kernel."""

_NO_SWAP = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def format_meminfo(limit: int, use: MemoryUse) -> bytes:
    """Return `/proc/meminfo`, without fields that no program uses to size itself."""
    total = min(limit, HOST_MEMORY)
    free = max(0, total - use.total)
    files = use.active_file + use.inactive_file
    values = {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": min(total, free + files),
        "Buffers": 0,
        "Cached": files + use.shared,
        "SwapCached": 0,
        "Active": use.active_file,
        "Inactive": use.anon + use.shared + use.inactive_file,
        "Active(anon)": 0,
        "Inactive(anon)": use.anon + use.shared,
        "Active(file)": use.active_file,
        "Inactive(file)": use.inactive_file,
        "Unevictable": 0,
        "Mlocked": 0,
        "SwapTotal": 0,
        "SwapFree": 0,
        "Dirty": 0,
        "Writeback": 0,
        "AnonPages": use.anon,
        "Mapped": 0,
        "Shmem": use.shared,
        "KReclaimable": 0,
        "Slab": 0,
        "SReclaimable": 0,
        "SUnreclaim": 0,
        "CommitLimit": total,
        "Committed_AS": use.anon,
    }
    return "".join(f"{name + ':':<15}{value >> 10:>12} kB\n" for name, value in values.items()).encode()


def stat(cpus: float, times: CpuTimes, seconds: float) -> bytes:
    """Return `/proc/stat` of a desk that has existed for `seconds`. Its boot time is the host's.

    Start times of processes count from that boot.
    """
    count = cpu_set.count(cpus)
    user, system = int(times.user * TICKS), int(times.system * TICKS)
    whole = (user, system, max(0, int(seconds * count * TICKS) - user - system))
    lines = [_format_cpu_line("cpu ", whole)]
    lines += [_format_cpu_line(f"cpu{number}", (value // count for value in whole)) for number in range(count)]
    lines += ["intr 0", "ctxt 0", f"btime {HOST_BOOT}", "processes 1", "procs_running 1", "procs_blocked 0"]
    return "\n".join([*lines, "softirq" + " 0" * 11, ""]).encode()


def _format_cpu_line(name: str, values: Iterable[int]) -> str:
    """Return one line of `/proc/stat`: user, nice, system, idle, and six times that are not counted for a desk."""
    user, system, idle = values
    return f"{name} {user} 0 {system} {idle} 0 0 0 0 0 0"


def format_cpuinfo(cpus: float) -> bytes:
    """Return `/proc/cpuinfo`: as many of the host's blocks as the desk has CPUs, numbered from 0."""
    return _format_cpu_blocks(cpu_set.count(cpus))


@functools.cache
def _format_cpu_blocks(count: int) -> bytes:
    blocks = HOST_CPUS[:count]
    numbered = (re.sub(r"(?m)^(processor\s*:).*$", rf"\1 {number}", block) for number, block in enumerate(blocks))
    return "".join(f"{block}\n\n" for block in numbered).encode()


def split_cpu_blocks(text: str) -> list[str]:
    """Split `/proc/cpuinfo` by CPU, without the block about the whole machine that some architectures add."""
    return [block for block in text.strip().split("\n\n") if re.search(r"(?m)^processor\s*:", block)]


def build_files(memory: int, cpus: float) -> dict[str, bytes]:
    return {
        "meminfo": format_meminfo(memory, MemoryUse()),
        "cpuinfo": format_cpuinfo(cpus),
        "stat": stat(cpus, CpuTimes(), 0.0),
        "swaps": _NO_SWAP,
    }


def rewrite(path: str, data: bytes) -> None:
    """Replace the content of a file that a desk may be reading at the same time."""
    fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)


def _read_host(name: str, pattern: str) -> int:
    with open(f"/proc/{name}") as file:
        found = re.search(pattern, file.read())
    return int(found.group(1)) if found else 0


HOST_MEMORY = _read_host("meminfo", r"MemTotal:\s+(\d+) kB") << 10
HOST_BOOT = _read_host("stat", r"(?m)^btime (\d+)$")
with open("/proc/cpuinfo") as listed:
    HOST_CPUS = split_cpu_blocks(listed.read())
