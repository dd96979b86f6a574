"""An open desk as seen from the host: read from /proc and the cgroup, by pid and id. The desk is not asked.

Paths in a desk are opened beneath its root, so that a link in an image cannot lead to the host's files.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.linux import uids
from hotdesk.linux.cgroup import Cgroup
from hotdesk.linux.openat2 import RootDirectory
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import read_status

NAMESPACES = ("pid", "mnt", "ipc", "uts", "cgroup", "net", "user")
NODES = ("null", "zero", "full", "random", "urandom", "tty")
MASKED = """
cmdline config.gz diskstats iomem ioports interrupts softirqs keys key-users modules locks partitions zoneinfo
buddyinfo schedstat sched_debug timer_list acpi asound bus driver fs irq pressure scsi
""".split()
"""Parts of /proc with facts about the host. Repeated here so that an omission where masks are made is noticed."""
_CGROUP_FILES = {
    1: {
        "memory": ("memory.limit_in_bytes", "memory.kmem.tcp.limit_in_bytes"),
        "pids": ("pids.max",),
        "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us"),
        "devices": ("devices.list",),
    },
    2: {"memory": ("memory.max", "memory.swap.max"), "pids": ("pids.max",), "cpu": ("cpu.max",)},
}
_NS_GET_OWNER_UID = 0xB704
OPENED = ("/dev/null", "/dev/kmsg", "/dev/loop-control", "/dev/fuse", "/dev/vda", "/dev/sda", "/dev/nvme0n1")
"""Devices to open on cgroup v2, whose rules cannot be listed: the first is allowed in a desk, the others are not."""
_OPEN_DEVICES = """
import errno, os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        print("opened")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of a mountinfo file."""

    number: str
    at: str
    flags: frozenset[str]
    kind: str
    options: str


@dataclass(frozen=True, slots=True)
class SeenProcess:
    pid: int
    status: dict[str, str]
    namespaces: dict[str, int]
    limits: dict[str, tuple[str, str]]
    """Soft and hard limits, by the names in /proc/PID/limits."""
    variables: frozenset[str]
    foreign: tuple[str, ...]
    """Open files that are on no mount of the desk."""


@dataclass(frozen=True, slots=True)
class DeskView:
    """Everything the host can see of a desk."""

    base: int
    """The first of its host user ids, as reserved for it."""
    claimed: bool
    processes: tuple[SeenProcess, ...]
    """In order of pid, after the first process."""
    host_namespaces: dict[str, int]
    maps: tuple[str, str]
    owner: int
    """The host user id that owns its user namespace."""
    mounts: tuple[Mount, ...]
    room: tuple[Mount, ...]
    """Mounts its keeper made for it."""
    network: dict[str, str]
    nodes: dict[str, tuple[int, int] | None]
    """Device and inode number of each node in /dev; `None` if it is missing."""
    host_nodes: dict[str, tuple[int, int] | None]
    masked: dict[str, bool | None]
    """Whether a part of /proc is empty; `None` if the host does not have it."""
    boot_id: str
    machine_id: str
    sys: tuple[frozenset[str], frozenset[str]]
    """The names in /sys and in /sys/class/net."""
    paths: tuple[str, ...]
    """Host paths that must not be visible inside."""
    cgroup_version: int
    cgroup: dict[str, str]
    opened: dict[str, str]
    """On cgroup v2: the result of opening each device as root in the desk's cgroup, `opened` or an error."""


@dataclass(frozen=True, slots=True)
class Rooted:
    """A desk in which a program runs as root."""

    base: int
    processes: tuple[SeenProcess, ...]
    host_namespaces: dict[str, int]


def look_at_root(facts: dict[str, object], cgroup: Cgroup) -> Rooted:
    mounts = tuple(read_mounts(Path(f"/proc/{facts['pid']}/mountinfo").read_text(errors="replace")))
    processes = tuple(look_at(pid, mounts) for pid in sorted(cgroup.list_pids()))
    return Rooted(int(str(facts["base"])), processes, read_namespaces(os.getpid()))


def look(settings: Config, desk: str, facts: dict[str, object], cgroup: Cgroup) -> DeskView:
    first, base, keeper = (int(str(facts[name])) for name in ("pid", "base", "keeper"))
    pids = [first, *sorted(cgroup.list_pids() - {first})]
    mounts = tuple(read_mounts(Path(f"/proc/{first}/mountinfo").read_text(errors="replace")))
    keeper_mounts = list(read_mounts(Path(f"/proc/{keeper}/mountinfo").read_text()))
    private = f"{settings.run}/private/{desk}/"
    with open_root(first) as inside, RootDirectory("/") as host:
        return DeskView(
            base=base,
            claimed=is_claimed(base, settings.run / "desks" / desk),
            processes=tuple(look_at(pid, mounts) for pid in pids),
            host_namespaces=read_namespaces(os.getpid()),
            maps=(Path(f"/proc/{first}/uid_map").read_text(), Path(f"/proc/{first}/gid_map").read_text()),
            owner=_read_namespace_owner(first),
            mounts=mounts,
            room=tuple(each for each in keeper_mounts if each.at.startswith(private)),
            network={name: read(Path(f"/proc/{first}/net/{name}")) for name in ("dev", "route", "ipv6_route", "tcp")},
            nodes={name: _find_device_and_inode(inside, f"dev/{name}") for name in NODES},
            host_nodes={name: _find_device_and_inode(host, f"dev/{name}") for name in NODES},
            masked={name: is_empty(inside, name) for name in MASKED},
            boot_id=read_small_file(inside, "proc/sys/kernel/random/boot_id"),
            machine_id=read_small_file(inside, "etc/machine-id"),
            sys=(list_names(inside, "sys"), list_names(inside, "sys/class/net")),
            paths=(str(settings.run), str(settings.lib), str(settings.images), desk),
            cgroup_version=cgroup.version,
            cgroup=dict(iterate_limits(cgroup)),
            opened=open_devices(cgroup) if cgroup.version == 2 else {},
        )


def open_devices(cgroup: Cgroup) -> dict[str, str]:
    """Open devices of the host in a desk's cgroup; return the result for each device that exists."""
    paths = [path for path in OPENED if os.path.exists(path)]
    argv = [sys.executable, "-I", "-S", "-c", _OPEN_DEVICES, *paths]
    try:
        done = subprocess.run(
            argv, preexec_fn=cgroup.join, capture_output=True, text=True, check=True, timeout=scale_seconds(60)
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(paths, done.stdout.split(), strict=False))


def look_at(pid: int, mounts: Iterable[Mount]) -> SeenProcess:
    numbers = {each.number for each in mounts}
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return SeenProcess(
        pid=pid,
        status=read_status(pid),
        namespaces=read_namespaces(pid),
        limits=read_limits(Path(f"/proc/{pid}/limits").read_text()),
        variables=frozenset(os.fsdecode(pair.partition(b"=")[0]) for pair in variables if pair),
        foreign=tuple(_list_foreign_files(pid, numbers)),
    )


def read_namespaces(pid: int) -> dict[str, int]:
    return {kind: os.stat(f"/proc/{pid}/ns/{kind}").st_ino for kind in NAMESPACES}


def _read_namespace_owner(pid: int) -> int:
    """Return the host user id that created a process's user namespace, to which its kernel resources are charged."""
    fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = bytearray(4)
        fcntl.ioctl(fd, _NS_GET_OWNER_UID, found)
        return int(struct.unpack("=I", found)[0])
    finally:
        os.close(fd)


def read_limits(text: str) -> dict[str, tuple[str, str]]:
    """Parse /proc/PID/limits, whose columns have fixed positions."""
    return {line[:26].strip(): (line[26:47].strip(), line[47:68].strip()) for line in text.splitlines()[1:]}


def read_mounts(text: str) -> Iterable[Mount]:
    for line in text.splitlines():
        head, _, tail = line.partition(" - ")
        fields, rest = head.split(" "), [*tail.split(" "), "", ""]
        yield Mount(fields[0], fields[4], frozenset(fields[5].split(",")), rest[0], f"{fields[3]} {rest[1]} {rest[2]}")


def _list_foreign_files(pid: int, mounts: set[str]) -> Iterable[str]:
    """List a process's open files that are on no mount of its desk, except pipes and sockets, which are on none."""
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            kind = stat.S_IFMT(os.stat(f"/proc/{pid}/fd/{name}").st_mode)
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if kind in (stat.S_IFIFO, stat.S_IFSOCK) or target.startswith("anon_inode:"):
                continue
            place = read(Path(f"/proc/{pid}/fdinfo/{name}")).partition("mnt_id:")[2].split()[:1]
            if not mounts.issuperset(place):
                yield target


def is_claimed(base: int, folder: Path) -> bool:
    claim = uids.CLAIMS / str((base - uids.FIRST) // uids.WIDTH)
    return claim.is_symlink() and os.readlink(claim) == str(folder)


def open_root(pid: int) -> RootDirectory:
    """Open a process's root directory; every path is resolved beneath it."""
    fd = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return RootDirectory(fd)
    finally:
        os.close(fd)


def _find_device_and_inode(inside: RootDirectory, path: str) -> tuple[int, int] | None:
    try:
        fd = inside.open(path.encode(), os.O_PATH | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.fstat(fd).st_dev, os.fstat(fd).st_ino
    finally:
        os.close(fd)


def is_empty(inside: RootDirectory, name: str) -> bool | None:
    """Return whether a part of a desk's /proc is empty; `None` if this kernel does not have it."""
    if not os.path.exists(f"/proc/{name}"):
        return None
    if os.path.isdir(f"/proc/{name}"):
        return not list_names(inside, f"proc/{name}")
    return not read_small_file(inside, f"proc/{name}")


def read_small_file(inside: RootDirectory, path: str) -> str:
    try:
        return inside.read(path.encode(), 256).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def list_names(inside: RootDirectory, path: str) -> frozenset[str]:
    try:
        fd = inside.open(path.encode(), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return frozenset()
    try:
        return frozenset(os.listdir(fd))
    finally:
        os.close(fd)


def iterate_limits(cgroup: Cgroup) -> Iterable[tuple[str, str]]:
    for controller, files in _CGROUP_FILES[cgroup.version].items():
        for name in files:
            yield name, read(cgroup.get_folder(controller) / name)


def read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
