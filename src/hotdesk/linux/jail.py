"""Confines this process for good: one folder, one user, no privilege, few system calls.

An attacker who controls the process afterwards can read and write that folder, use its open sockets and, in the door,
open TCP connections; nothing else. Everything that it will need must be loaded before: modules, codecs, trust stores.
An event loop is created afterwards.
"""

from __future__ import annotations

import codecs
import ctypes
import importlib
import os
import platform
import signal
import ssl
from collections.abc import Collection
from pathlib import Path

from hotdesk.linux import bpf, landlock, rlimits, syscalls

_CODECS = ("ascii", "utf-8", "latin-1", "idna", "punycode", "unicode_escape")
MODULES = ("_strptime", "linecache", "stringprep", "traceback")
"""Modules that the standard library imports only at first use."""
FILES = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | landlock.TRUNCATE
"""Landlock rights in the folder: read, write, list, remove and make regular files."""
RING = "anon_inode:[io_uring]"
_SET_MODE_FILTER = 1
_SYS_SECCOMP = {"aarch64": 277, "x86_64": 317}


class SockFprog(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def enter(
    root: Path, uid: int, names: Collection[str], *, dials: bool = False, leashed: bool = False, trusting: bool = False
) -> Path:
    """Confine this process to `root`, and return its new path: `/`, or unchanged for an ordinary user.

    `dials`: it may open TCP connections. `leashed`: it is killed when its parent ends. `trusting`: it reads only from
    hotdesk's own processes, so that an ordinary user may start it without Landlock.
    """
    parent = os.getppid()
    _refuse_rings()
    preload()
    place = confine_to_root(root, uid, dials=dials, trusting=trusting)
    if leashed:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)  # after the change of user, which would reset it
        if os.getppid() != parent:
            os._exit(1)
    install(bpf.build_program(platform.machine(), names, os.getpid()))
    return place


def _refuse_rings() -> None:
    """Raise `RuntimeError` for an open io_uring, which bypasses the filter; libuv aborts if its ring is refused."""
    for fd in os.listdir("/proc/self/fd"):
        if (Path("/proc/self/fd") / fd).is_symlink() and os.readlink(f"/proc/self/fd/{fd}") == RING:
            raise RuntimeError(
                "this process has an open io_uring, which bypasses the system call filter: create the event loop after "
                "confinement"
            )


def preload() -> None:
    """Load what Python otherwise loads from files at first use."""
    for codec in _CODECS:
        codecs.lookup(codec)
    for module in MODULES:
        importlib.import_module(module)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the first context makes OpenSSL read its configuration


def confine_to_root(root: Path, uid: int, *, dials: bool, trusting: bool = False) -> Path:
    """Leave this process one folder, no privilege, and of TCP at most connecting; return the folder's new path.

    An ordinary user cannot change the root, so Landlock alone confines the process. Without Landlock, no process is
    started that reads data from desks.
    """
    place = root
    if os.geteuid() == 0:
        os.chroot(root)
        place = Path("/")
    elif not trusting and not landlock.is_supported():
        raise RuntimeError("this kernel has no Landlock; without it only root can confine a process")
    os.chdir(place)
    drop_privileges(uid)
    landlock.restrict([place], FILES, reads=landlock.READS, tcp=landlock.BIND if dials else landlock.TCP)
    return place


def drop_privileges(uid: int) -> None:
    """Become an unprivileged user for good, without core files and with memory that others cannot read."""
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    rlimits.set_core_limit()
    rlimits.raise_open_files()
    if os.geteuid() == 0:
        landlock.limit_capabilities(set())
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)


def install(program: bytes) -> None:
    """Install a seccomp filter in all threads of this process."""
    filter_program = SockFprog(len(program) // 8, program)
    number = _SYS_SECCOMP[platform.machine()]
    result = syscalls.libc.syscall(number, _SET_MODE_FILTER, ctypes.c_ulong(0), ctypes.byref(filter_program))
    syscalls.check(result, "seccomp")
