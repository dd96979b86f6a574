"""A desk's resource limits and process control: one cgroup per desk, on v2, v1 and hybrid hosts.

On v1 a desk joins only the hierarchies it uses (joining all eight costs 10 ms), but always `devices`, `pids`, `freezer`
and `memory`.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.errors import HostError
from hotdesk.linux import device_filter

TICKS = os.sysconf("SC_CLK_TCK")
"""Units of CPU time per second, in `/proc/stat` and cgroup v1."""
NEEDED = ("memory", "pids", "cpu", "cpuacct", "devices", "freezer")
PERIOD = 100_000
_FULL_SHARE = 1024
_SHARE_STEP = 1.25
"""The factor in processor share between two neighbouring niceness values, in the kernel's scheduler."""
KERNEL_TCP = 32 << 20
"""Maximum bytes of a v1 desk's socket buffers, which v1 does not count as its memory."""
DEVICES = ("c 1:3", "c 1:5", "c 1:7", "c 1:8", "c 1:9", "c 5:0", "c 5:2", "c 136:*")
"""Allowed devices: null, zero, full, random, urandom, tty, ptmx, and the desk's own ptys."""

_ABOVE = "hotdesk"
"""The cgroup above all desks' cgroups, on v2."""
_HEADROOM_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file")
_HEADROOM_V2 = ("memory.max", "memory.current", b"inactive_file")
"""Files with limit and usage, and the counter of memory that the kernel can reclaim at once, by version."""
_VACATED = "init"
"""The cgroup, on v2 in a container, for processes moved out of the container's own cgroup."""
_STAT_V1 = ("memory.usage_in_bytes", "total_", ("rss", "active_file", "inactive_file", "shmem"))
_STAT_V2 = ("memory.current", "", ("anon", "active_file", "inactive_file", "shmem"))
"""The file with total memory, and the prefix and names in `memory.stat`, in the order of `MemoryUse`."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes of memory one desk uses, by kind."""

    total: int = 0
    """Bytes that count against the limit."""
    anon: int = 0
    active_file: int = 0
    inactive_file: int = 0
    shared: int = 0
    """tmpfs and other shared memory: part of the page cache, but not reclaimable."""


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds of CPU time one desk has used."""

    user: float = 0.0
    system: float = 0.0


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """The limits of one desk."""

    memory: int
    pids: int
    cpus: float

    @property
    def quota(self) -> int:
        """Return the CPU microseconds per period, at least the 1000 that the kernel requires."""
        return max(1000, int(self.cpus * PERIOD))


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The mount points of this machine's cgroup controllers; on v2 a single one."""

    version: int
    mounts: dict[str, Path]

    def get_folders(self, desk: str) -> dict[str, Path]:
        """Return a desk's folders by hierarchy; on v2 below a cgroup whose controllers only hotdesk changes."""
        above = _ABOVE if self.version == 2 else ""
        return {name: Path(f"{mount}/{above}/hotdesk-{desk}") for name, mount in self.mounts.items()}

    def remove_above(self) -> bool:
        """Delete the cgroup above v2's desks; return False if there is none, or it still has desks."""
        if self.version == 1:
            return False
        try:
            os.rmdir(self.mounts["unified"] / _ABOVE)
        except OSError:
            return False
        return True


def get_share() -> int:
    """Return a desk's share of the processors, in 1024ths: the one that this process has by its niceness."""
    return max(2, min(_FULL_SHARE, round(_FULL_SHARE / _SHARE_STEP ** os.getpriority(os.PRIO_PROCESS, 0))))


def detect(mountinfo: str, unified_controllers: str | None) -> Hierarchies:
    """Find the controllers in a mountinfo text; `unified_controllers` is the v2 root's list, or `None` without v2."""
    v1: dict[str, Path] = {}
    for line in mountinfo.splitlines():
        fields, _, right = line.partition(" - ")
        if right.split(" ")[:1] == ["cgroup"]:
            for option in right.split(" ")[2].split(","):
                if option in NEEDED:
                    v1.setdefault(option, Path(fields.split(" ")[4]))
    if not v1 and unified_controllers is not None:
        missing = {"memory", "pids", "cpu"} - set(unified_controllers.split())
        if missing:
            raise HostError(
                f"cgroup v2 lacks the controllers {', '.join(sorted(missing))}; enable them on "
                "the kernel's command line"
            )
        return Hierarchies(2, {"unified": Path("/sys/fs/cgroup")})
    missing = set(NEEDED) - set(v1)
    if missing:
        raise HostError(
            f"the cgroup controllers {', '.join(sorted(missing))} are not mounted for cgroup v1; mount them below "
            "/sys/fs/cgroup, or start this machine with cgroup v2 alone: newer kernels, such as Debian 13's, have "
            "no memory controller for v1"
        )
    return Hierarchies(1, v1)


def find_hierarchies() -> Hierarchies:
    root = Path("/sys/fs/cgroup/cgroup.controllers")
    return detect(Path("/proc/self/mountinfo").read_text(), root.read_text() if root.exists() else None)


class Cgroup:
    """One desk's cgroup. Removing a missing one is no error; making an existing one is, as it is another's."""

    def __init__(self, hierarchies: Hierarchies, desk: str) -> None:
        self.version = hierarchies.version
        self.folders = hierarchies.get_folders(desk)
        self.places = list(dict.fromkeys(self.folders.values()))
        """Each folder once: v1 often mounts `cpu` and `cpuacct` together."""
        self.quiet = self.get_folder("freezer") / "suspended"
        """The child cgroup of processes that are frozen while a person controls the desk."""

    def get_folder(self, controller: str) -> Path:
        return self.folders["unified" if self.version == 2 else controller]

    def make(self, limits: CgroupLimits) -> None:
        if self.version == 2:
            self.open_above()
        for folder in self.places:
            os.mkdir(folder)
        if self.version == 1:
            self.deny_devices()
        else:
            self.filter_devices()
        self.limit(limits)
        if get_share() != _FULL_SHARE:
            self.set_cpu_share(True)

    def limit(self, limits: CgroupLimits) -> None:
        if self.version == 2:
            self.limit_v2(limits)
        else:
            self.limit_v1(limits)

    def set_cpu_share(self, favoured: bool, least: int = 2) -> None:
        """Set its share of the processors to this process's own, or to `least` of 1024 if it is not favoured."""
        share = get_share() if favoured else least
        if self.version == 2:
            self.put("cpu", "cpu.weight", max(1, share * 100 // _FULL_SHARE))
        else:
            self.put("cpu", "cpu.shares", share)

    def open_above(self) -> None:
        """Enable v2's controllers in the cgroup above the desks, which stays."""
        above = self.folders["unified"].parent
        above.mkdir(exist_ok=True)
        for folder in (above.parent, above):
            delegate(folder)

    def limit_v1(self, limits: CgroupLimits) -> None:
        self.limit_memory_v1(limits.memory)
        self.put("memory", "memory.kmem.tcp.limit_in_bytes", KERNEL_TCP, optional=True)
        self.put("pids", "pids.max", limits.pids)
        self.put("cpu", "cpu.cfs_period_us", PERIOD)
        self.put("cpu", "cpu.cfs_quota_us", limits.quota)

    def limit_memory_v1(self, most: int) -> None:
        """Set both limits, in the order that keeps the memory limit at most the one with swap."""
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        grows = most > int((self.get_folder("memory") / names[0]).read_text())
        for name in reversed(names) if grows else names:
            self.put("memory", name, most, optional=name == names[1])

    def deny_devices(self) -> None:
        self.put("devices", "devices.deny", "a")
        for device in DEVICES:
            self.put("devices", "devices.allow", f"{device} rw")

    def allow_device(self, device: str) -> None:
        """Allow one more device, such as `c 10:232`."""
        if self.version == 1:
            self.put("devices", "devices.allow", f"{device} rw")
        else:
            self.filter_devices((*DEVICES, device), instead_of=DEVICES)

    def filter_devices(self, devices: tuple[str, ...] = DEVICES, instead_of: tuple[str, ...] = ()) -> None:
        """Limit devices on v2, by a BPF program. Some containers may not load one, which `hotdesk doctor` reports."""
        try:
            device_filter.attach(str(self.folders["unified"]), devices, instead_of)
        except OSError as e:
            if e.errno not in (errno.EPERM, errno.EINVAL, errno.ENOSYS):
                raise

    def limit_v2(self, limits: CgroupLimits) -> None:
        self.put("memory", "memory.max", limits.memory)
        self.put("memory", "memory.swap.max", 0, optional=True)
        self.put("pids", "pids.max", limits.pids)
        self.put("cpu", "cpu.max", f"{limits.quota} {PERIOD}")

    def put(self, controller: str, name: str, value: object, *, optional: bool = False) -> None:
        """Write one file. If `optional`, the kernel may lack it."""
        try:
            write(f"{self.get_folder(controller)}/{name}", str(value).encode())
        except FileNotFoundError:
            if not optional:
                raise

    def measure_unread_bytes(self) -> int:
        """Return the unread bytes of its sockets if the kernel counts them apart from its memory, else 0."""
        if self.version == 2:
            return 0
        try:
            return int(read(f"{self.get_folder('memory')}/memory.kmem.tcp.usage_in_bytes"))
        except OSError:  # this kernel does not count them, or the desk is being burnt
            return 0

    def join(self) -> None:
        """Move the calling process into the cgroup. Called between fork and exec."""
        for file in self.list_joining_files():
            write(file, b"0")

    def list_joining_files(self) -> list[str]:
        """List the files to which a process writes 0 to join the cgroup."""
        return [f"{folder}/cgroup.procs" for folder in self.places]

    def list_pids(self) -> set[int]:
        found: set[int] = set()
        for folder in (*self.places, self.quiet):
            try:
                found.update(map(int, read(f"{folder}/cgroup.procs").split()))
            except OSError as e:
                if e.errno not in (errno.ENOENT, errno.ENODEV):
                    raise
                continue  # this hierarchy's folder is already gone
        return found

    def holds(self, pid: int) -> bool:
        return all(b"%d" % pid in read(f"{folder}/cgroup.procs").split() for folder in self.places)

    def freeze(self, frozen: bool) -> None:
        if self.version == 2:
            self.put("freezer", "cgroup.freeze", int(frozen))
        else:
            self.put("freezer", "freezer.state", "FROZEN" if frozen else "THAWED")

    def list_unsuspended(self) -> list[int]:
        return [int(pid) for pid in read(f"{self.get_folder('freezer')}/cgroup.procs").split()]

    def suspend(self, pids: Iterable[int]) -> None:
        """Freeze some processes separately; they stay frozen when the others are thawed."""
        self.quiet.mkdir(exist_ok=True)
        for pid in pids:
            with suppress(ProcessLookupError):
                write(f"{self.quiet}/cgroup.procs", b"%d" % pid)
        self.freeze_suspended(True)

    def resume_suspended(self) -> None:
        """Move suspended processes back and let them continue with the others."""
        while pids := read(f"{self.quiet}/cgroup.procs").split():
            for pid in pids:
                with suppress(ProcessLookupError):
                    write(f"{self.get_folder('freezer')}/cgroup.procs", pid)
        self.freeze_suspended(False)

    def freeze_suspended(self, frozen: bool) -> None:
        """Freeze or thaw the suspended processes, if any were ever suspended."""
        with suppress(FileNotFoundError):
            if self.version == 2:
                write(f"{self.quiet}/cgroup.freeze", b"%d" % frozen)
            else:
                write(f"{self.quiet}/freezer.state", b"FROZEN" if frozen else b"THAWED")

    def is_frozen(self) -> bool:
        if self.version == 2:
            return "frozen 1" in (self.get_folder("freezer") / "cgroup.events").read_text()
        return (self.get_folder("freezer") / "freezer.state").read_text().strip() == "FROZEN"

    def strike(self) -> set[int]:
        """Send SIGKILL to every process once; return their ids.

        A frozen v1 process takes the signal only once thawed. Killing the first process ends its pid namespace, so that
        no process can escape by forking. Older processes are killed first, so that no guest can report how its programs
        were killed.
        """
        pids = self.list_pids()
        if not pids:
            return pids
        if self.version == 2:
            self.put("freezer", "cgroup.kill", 1, optional=True)
        for pid in sorted(pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            self.freeze_suspended(False)
            self.freeze(False)
        except OSError:
            pass  # the folder was removed meanwhile
        return pids

    def kill(self, seconds: float = 5.0) -> bool:
        """Kill until the cgroup is empty; return False if a process survives the timeout."""
        end = time.monotonic() + seconds
        while self.strike():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True

    def read_usage(self) -> dict[str, int | float]:
        """Return its usage: processor seconds, bytes of memory, processes, and kills by the memory limit."""
        memory = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        return {
            "cpu": self.read_cpu_seconds(),
            "memory": int((self.get_folder("memory") / memory).read_text()),
            "pids": int((self.get_folder("pids") / "pids.current").read_text()),
            "oom_kills": self.count_oom_kills(),
            "processes": len(self.list_pids()),
        }

    def read_cpu_seconds(self) -> float:
        if self.version == 1:
            return int((self.get_folder("cpuacct") / "cpuacct.usage").read_text()) / 1e9
        stat = (self.get_folder("cpu") / "cpu.stat").read_text()
        return next(int(line.split()[1]) / 1e6 for line in stat.splitlines() if line.startswith("usage_usec "))

    def read_memory_use(self) -> MemoryUse:
        name, prefix, kinds = _STAT_V2 if self.version == 2 else _STAT_V1
        stat = _parse_counters(read(f"{self.get_folder('memory')}/memory.stat"))
        total = int(read(f"{self.get_folder('memory')}/{name}"))
        return MemoryUse(total, *(stat.get(f"{prefix}{kind}".encode(), 0) for kind in kinds))

    def read_cpu_times(self) -> CpuTimes:
        if self.version == 1:
            stat = _parse_counters(read(f"{self.get_folder('cpuacct')}/cpuacct.stat"))
            return CpuTimes(stat[b"user"] / TICKS, stat[b"system"] / TICKS)
        stat = _parse_counters(read(f"{self.get_folder('cpu')}/cpu.stat"))
        return CpuTimes(stat[b"user_usec"] / 1e6, stat[b"system_usec"] / 1e6)

    def count_oom_kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for line in (self.get_folder("memory") / name).read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
        return 0

    def count_refused_forks(self) -> int:
        """Return how often its limit of processes prevented a fork; 0 if the kernel does not count that."""
        try:
            return _parse_counters(read(f"{self.get_folder('pids')}/pids.events")).get(b"max", 0)
        except FileNotFoundError:
            return 0

    def remove(self) -> None:
        """Delete its folders. Raises `OSError` for a moment after the last exit, until the kernel has cleaned up."""
        for folder in (self.quiet, *self.places):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                continue


def read_headroom(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory that the cgroup above all desks may still use, which may be limited in a container."""
    for folder, (limit, used, cached) in ((root / "memory", _HEADROOM_V1), (root, _HEADROOM_V2)):
        try:
            most = read(f"{folder}/{limit}").strip()
            stat = _parse_counters(read(f"{folder}/memory.stat"))
            usage = int(read(f"{folder}/{used}"))
        except FileNotFoundError:
            continue  # the other version, or the kernel's root cgroup, which has no limit
        if most.isdigit():
            return max(0, int(most) - usage + stat.get(cached, 0))
    return 1 << 62


def delegate(folder: Path, switch: Callable[[Path], None] | None = None) -> None:
    """Enable v2's controllers below a cgroup; if processes in it prevent that, as in a container, move them below."""
    switch = switch or _switch_on
    try:
        switch(folder)
    except OSError as e:
        if e.errno != errno.EBUSY:
            raise
        move_processes_below(folder)
        switch(folder)


def _switch_on(folder: Path) -> None:
    (folder / "cgroup.subtree_control").write_text("+memory +pids +cpu")


def move_processes_below(folder: Path, tries: int = 100) -> None:
    """Move the processes of a v2 cgroup into a child of it, as engines do that run containers in a container."""
    below = folder / _VACATED
    below.mkdir(exist_ok=True)
    for _ in range(tries):
        pids = read(f"{folder}/cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                write(f"{below}/cgroup.procs", pid)
    raise OSError(errno.EBUSY, f"processes in the cgroup {folder} start faster than hotdesk can move them; try again")


def _parse_counters(text: bytes) -> dict[bytes, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def write(path: str, data: bytes) -> None:
    """Write a kernel file in one call; Python's file objects take three times as long."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        while more := os.read(fd, 1 << 16):
            text += more
        return text
    finally:
        os.close(fd)
