"""Landlock: gives up rights that a command no longer needs, before it reads bytes from a desk.

Gone for this process and its children: capabilities, new privileges, writing files outside result folders, TCP, and
signals to other processes. Call it before any thread is started. Reading stays, because an interpreter reads its own
modules.
"""

from __future__ import annotations

import ctypes
import os

from hotdesk.linux.libc import PR_SET_NO_NEW_PRIVS, check, libc, prctl

TYPE_CHECKING = False  # importing modules for annotations would cost a quick command 10 ms
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
_LAST_CAPABILITY = 40
CAPABILITY_VERSION = 0x20080522
PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4

SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_WRITES = 1 << 1 | sum(1 << bit for bit in range(4, 13))
"""Rights to write to, remove and make files and folders of every kind."""
REFER, TRUNCATE, DEVICES = 1 << 13, 1 << 14, 1 << 15
FILES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | REFER | TRUNCATE
"""Those of them that make files, folders and sockets, but no links and no devices."""
SOCKETS = 1 << 5 | 1 << 7 | 1 << 9
"""Those of them that make folders and sockets and remove files; none to write a file."""
READS = 1 << 0 | 1 << 2 | 1 << 3
"""Rights to execute and read files, and to list folders."""
BIND, CONNECT = 0b01, 0b10
TCP = BIND | CONNECT
_SCOPES = 0b11
"""Abstract sockets of, and signals to, processes outside this one and its children."""


class Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr."""

    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class Beneath(ctypes.Structure):
    """struct landlock_path_beneath_attr."""

    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Port(ctypes.Structure):
    """struct landlock_net_port_attr."""

    _fields_ = (("access", ctypes.c_uint64), ("port", ctypes.c_uint64))


def confine(
    writable: Iterable[Path], *, any_owner: bool = False, dials: bool = False, ports: Collection[int] = ()
) -> None:
    """Give up everything but reading and writing below `writable`.

    `any_owner` keeps root's access to other users' files there. With `dials` TCP connections are allowed, otherwise to
    `ports` only.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    restrict([find_existing(path) for path in writable], tcp=BIND if dials else TCP, ports=ports)
    if os.geteuid() == 0:
        drop_capabilities({CAP_DAC_OVERRIDE} if any_owner else set())


def confine_reader(
    writable: Iterable[Path], sockets: Iterable[Path], *, dials: bool = False, ports: Collection[int] = ()
) -> None:
    """Give up everything but reading, making regular files below `writable`, and sockets below `sockets`.

    No links can be made there, because more privileged processes use these folders. With `dials` TCP connections are
    allowed, otherwise to `ports` only.
    """
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    restrict(list(writable), FILES, tcp=BIND if dials else TCP, ports=ports, sockets=list(sockets))
    if os.geteuid() == 0:
        drop_capabilities({CAP_DAC_READ_SEARCH})


def find_existing(path: Path) -> Path:
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def drop_capabilities(allowed: set[int]) -> None:
    """Keep only these capabilities, now and after every exec."""
    limit_capabilities(allowed)
    bits = sum(1 << capability for capability in allowed)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(bits, bits, 0, 0, 0, 0)
    check(libc.capset(header, data), "capset")


def limit_capabilities(allowed: set[int]) -> None:
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in allowed:
            libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)


def is_supported() -> bool:
    """Return whether this kernel has Landlock and lets this process use it."""
    return int(libc.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))) >= 1


def restrict(
    folders: list[Path],
    granted: int = ~0,
    *,
    reads: int = 0,
    tcp: int = TCP,
    ports: Collection[int] = (),
    sockets: Collection[Path] = (),
) -> None:
    """Restrict this thread and its children by Landlock, as far as this kernel supports it.

    Writing is restricted to the `granted` rights below `folders`, and so are the rights in `reads`; sockets may be made
    below `sockets`, too. The TCP rights in `tcp` are refused, except connecting to `ports`.
    """
    version = libc.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    handled = _WRITES | reads | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    handled |= DEVICES if version >= 5 and reads else 0
    attributes = Ruleset(handled, tcp if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    result = libc.syscall(SYS_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    ruleset = check(result, "landlock_create_ruleset")
    try:
        for folder, rights in (*((each, granted) for each in folders), *((each, SOCKETS) for each in sockets)):
            fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                _add_rule(ruleset, 1, Beneath(handled & rights, fd))
            finally:
                os.close(fd)
        for port in ports if attributes.net & CONNECT else ():
            _add_rule(ruleset, 2, Port(CONNECT, port))
        check(libc.syscall(SYS_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)), "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _add_rule(ruleset: int, kind: int, rule: ctypes.Structure) -> None:
    added = libc.syscall(SYS_ADD_RULE, ruleset, kind, ctypes.byref(rule), ctypes.c_uint32(0))
    check(added, "landlock_add_rule")
