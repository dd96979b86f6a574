"""Shut this process in, for good: one folder, one user, no privilege, few system calls.

Whoever takes the process over afterwards can read and write that folder, use the sockets it holds and, if it is the
door, dial out; nothing else. Everything it will need must be there before: modules, codecs, trust stores. An
event loop is made inside.
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
"""What the standard library imports only when it is first used."""
FILES = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | landlock.TRUNCATE
"""What may be done in the folder: read, write, list, remove and make plain files."""
RING = "anon_inode:[io_uring]"
_SET_MODE_FILTER = 1
_SYS_SECCOMP = {"aarch64": 277, "x86_64": 317}


class SockFprog(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def enter(
    root: Path, uid: int, names: Collection[str], *, dials: bool = False, leashed: bool = False, trusting: bool = False
) -> Path:
    """Shut this process in `root`, and return where that is from here on: `/`, unless an ordinary user asks.

    `dials`: it may still connect by TCP; `leashed`: it dies with its parent, whatever becomes of it; `trusting`: it
    hears only processes of ours, and an ordinary user's starts without Landlock, too.
    """
    parent = os.getppid()
    _refuse_rings()
    preload()
    place = confine_to_root(root, uid, dials=dials, trusting=trusting)
    if leashed:
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user would undo it
        if os.getppid() != parent:
            os._exit(1)
    install(bpf.build_program(platform.machine(), names, os.getpid()))
    return place


def _refuse_rings() -> None:
    """Stop at an open io_uring: it can ask for what the filter refuses, and libuv dies with a ring it may not use."""
    for fd in os.listdir("/proc/self/fd"):
        if (Path("/proc/self/fd") / fd).is_symlink() and os.readlink(f"/proc/self/fd/{fd}") == RING:
            raise RuntimeError("an io_uring is open: create the event loop after confinement")


def preload() -> None:
    """Bring in what is otherwise looked for in files at its first use."""
    for codec in _CODECS:
        codecs.lookup(codec)
    for module in MODULES:
        importlib.import_module(module)
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # OpenSSL reads its configuration with the first


def confine_to_root(root: Path, uid: int, *, dials: bool, trusting: bool = False) -> Path:
    """Leave this process one folder, no privilege, and of TCP at most connecting; return where the folder is now.

    An ordinary user cannot change the root: Landlock alone then keeps the process in, and without it none is started
    that reads what desks send.
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
    """Become a user without files, without ways to another user, and with unreadable memory."""
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
