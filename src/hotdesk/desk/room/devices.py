"""Files of a desk in /dev and /sys, over /proc and beside its guest, made in its room.

Plain strings and one system call each, because a keeper makes forty of these for every desk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping

NODES = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
CPU, LOOPBACK = "devices/system/cpu", "class/net/lo"
_SYS_FOLDERS = ("devices", "devices/system", CPU, "class", "class/net", LOOPBACK)


def make_dev(at: str) -> None:
    """Make device nodes of the desk's own. Shared nodes would reveal their use by other desks and the host."""
    make_folders(at, ("pts", "shm"))
    before = os.umask(0)
    try:
        for name, (major, minor) in NODES.items():
            os.mknod(f"{at}/{name}", stat.S_IFCHR | 0o666, os.makedev(major, minor))
    finally:
        os.umask(before)
    for name, target in LINKS.items():
        os.symlink(target, f"{at}/{name}")


def make_sys(at: str, cpus: int) -> None:
    """Make a /sys with the desk's own facts only: its CPUs and its loopback interface."""
    make_folders(at, _SYS_FOLDERS)
    write_files(f"{at}/{CPU}", _build_cpu_files(cpus))
    write_files(f"{at}/{LOOPBACK}", {"mtu": b"65536\n", "operstate": b"unknown\n"})


def set_cpus(at: str, cpus: int) -> None:
    write_files(f"{at}/{CPU}", _build_cpu_files(cpus), flags=os.O_TRUNC)


def _build_cpu_files(cpus: int) -> dict[str, bytes]:
    online = b"0-%d\n" % (cpus - 1) if cpus > 1 else b"0\n"
    return dict.fromkeys(("online", "possible", "present"), online)


def make_folders(at: str, names: Iterable[str]) -> None:
    os.mkdir(at, 0o755)
    for name in names:
        os.mkdir(f"{at}/{name}", 0o755)


def write_files(at: str, files: Mapping[str, bytes], mode: int = 0o644, flags: int = os.O_CREAT | os.O_EXCL) -> None:
    """Write new files into a folder; with other flags, existing ones."""
    for name, data in files.items():
        fd = os.open(f"{at}/{name}", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)
        try:
            while data:
                data = data[os.write(fd, data) :]
        finally:
            os.close(fd)
