"""System calls that the keeper needs and Python 3.11 lacks: thin functions that raise `OSError`."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from hotdesk.linux.libc import PR_SET_NO_NEW_PRIVS as PR_SET_NO_NEW_PRIVS
from hotdesk.linux.libc import check as check
from hotdesk.linux.libc import libc as libc
from hotdesk.linux.libc import prctl as prctl

T = TypeVar("T")

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_SLAVE = 4096, 16384, 1 << 19
MS_NOATIME, MS_PRIVATE = 1024, 1 << 18
_MNT_DETACH = 2

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000

SYS_OPEN_TREE, SYS_MOVE_MOUNT, SYS_MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
SYS_FSCONFIG, SYS_FSPICK = 431, 433
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
FSPICK_CLOEXEC, FSCONFIG_SET_STRING, FSCONFIG_CMD_RECONFIGURE = 1, 1, 7
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
RENAME_EXCHANGE = 2
_MOVE_MOUNT_F_EMPTY_PATH = 4
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_IDMAP = 1, 2, 4, 0x100000

CAPABILITY_VERSION = 0x20080522
"""The version of `capset` with effective, permitted and inheritable sets in two halves."""

CAP_SYS_ADMIN = 1 << 21

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 8, 24, 36

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


class MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str | None = None) -> None:
    result = libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    check(result, f"mount {kind or 'bind'} on {target}")


def umount(target: str) -> None:
    """Detach a mount at once; it is freed with its last user."""
    check(libc.umount2(target.encode(), _MNT_DETACH), f"umount {target}")


def resize_tmpfs(at: str, size: int) -> None:
    """Change the size limit of a tmpfs in any mount namespace."""
    fs = check(libc.syscall(SYS_FSPICK, AT_FDCWD, at.encode(), FSPICK_CLOEXEC), f"fspick {at}")
    try:
        steps = ((FSCONFIG_SET_STRING, b"size", str(size).encode()), (FSCONFIG_CMD_RECONFIGURE, None, None))
        for command, key, value in steps:
            check(libc.syscall(SYS_FSCONFIG, fs, command, key, value, 0), f"resize {at}")
    finally:
        os.close(fs)


def exchange(first: str, second: str) -> None:
    """Swap two files atomically."""
    result = libc.renameat2(AT_FDCWD, first.encode(), AT_FDCWD, second.encode(), ctypes.c_uint(RENAME_EXCHANGE))
    check(result, f"exchange {first} and {second}")


def ioctl(fd: int, code: int, argument: bytes) -> None:
    """Call ioctl(2) without blocking other threads: Python's own holds the GIL if the argument is long."""
    buffer = ctypes.create_string_buffer(argument, len(argument))
    check(libc.ioctl(fd, ctypes.c_ulong(code), buffer), f"ioctl {code:#x}")


def syncfs(fd: int) -> None:
    check(libc.syncfs(fd), "syncfs")


def unshare(flags: int) -> None:
    """Move this thread, not the whole process, into new namespaces."""
    check(libc.unshare(flags), f"unshare {flags:#x}")


def setns(fd: int, kind: int) -> None:
    """Move this thread into a namespace; for a pid namespace, its future children."""
    check(libc.setns(fd, kind), f"setns {kind:#x}")


def drop_bounding(capability: int) -> None:
    """Drop a capability from the bounding set for good; one unknown to this kernel is no error."""
    if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0 and ctypes.get_errno() != errno.EINVAL:
        check(-1, f"drop capability {capability}")


def drop_capabilities() -> None:
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    check(libc.capset(header, sets), "capset")


def set_effective_capabilities(low: int | None = None) -> None:
    """Make these capabilities, all below 32, effective in this thread; without `low`, all that are permitted."""
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    check(libc.capget(header, sets), "capget")
    sets[0], sets[3] = (sets[1], sets[4]) if low is None else (low, 0)
    check(libc.capset(header, sets), "capset")


def pivot_root(folder: str) -> None:
    """Make a mount the root of this mount namespace, and detach the former root."""
    os.chdir(folder)
    check(libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"."), f"pivot_root {folder}")
    check(libc.umount2(b".", _MNT_DETACH), "umount the former root")
    os.chdir("/")


def mount_idmapped(source: str, target: str, userns: int, attributes: int = ATTR_RDONLY) -> None:
    """Mount a directory at a target with its owners mapped into a user namespace, without devices or setuid."""
    _mount_copy(source, target, MountAttr(attributes | ATTR_NOSUID | ATTR_NODEV | ATTR_IDMAP, 0, 0, userns))


def mount_readonly(source: str, target: str) -> None:
    _mount_copy(source, target, MountAttr(ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, 0, 0, 0))


def _mount_copy(source: str, target: str, attr: MountAttr) -> None:
    """Mount a file or directory at a target, with these attributes from the first moment."""
    flags = ctypes.c_uint(OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    tree = check(libc.syscall(SYS_OPEN_TREE, AT_FDCWD, source.encode(), flags), f"open_tree {source}")
    try:
        size = ctypes.c_size_t(ctypes.sizeof(attr))
        check(
            libc.syscall(SYS_MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(attr), size),
            f"mount_setattr {source}",
        )
        check(
            libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), _MOVE_MOUNT_F_EMPTY_PATH),
            f"move_mount {target}",
        )
    finally:
        os.close(tree)


@contextmanager
def making_files_as(owner: int) -> Iterator[None]:
    """Make this thread create files as a user, keeping all capabilities: root's own id is not mapped in a desk."""
    try:
        for change in (libc.setfsgid, libc.setfsuid):
            change(ctypes.c_uint(owner))
        set_effective_capabilities()
        yield
    finally:
        for change in (libc.setfsuid, libc.setfsgid):
            change(ctypes.c_uint(0))


def run_in_new_netns(work: Callable[[], T]) -> tuple[int, T]:
    """Run a function in a new network namespace; return the namespace's descriptor and the result.

    The namespace's inode is checked: if the unshare ever failed silently, the function would bind on the host.
    """

    def run_inside() -> tuple[int, T]:
        before = os.stat("/proc/thread-self/ns/net").st_ino
        unshare(CLONE_NEWNET)
        netns = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(netns).st_ino == before:
                raise OSError("the kernel created no network namespace: the thread is still in the host's")
            return netns, work()
        except BaseException:
            os.close(netns)
            raise

    return run_in_thread(run_inside)


def run_in_netns(netns: int, work: Callable[[], T]) -> T:
    """Run a function in an open network namespace, whose inode is checked: a mistake would connect on the host."""

    def run_inside() -> T:
        check(libc.setns(netns, CLONE_NEWNET), "setns")
        if os.stat("/proc/thread-self/ns/net").st_ino != os.fstat(netns).st_ino:
            raise OSError("the thread could not enter the desk's network namespace")
        return work()

    return run_in_thread(run_inside)


def run_in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread of its own, so that the namespaces it enters end with the thread."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run_inside() -> None:
        try:
            outcome.append(work())
        except BaseException as e:  # noqa: BLE001 - carried over to the caller's thread
            failure.append(e)

    thread = threading.Thread(target=run_inside)
    try:
        thread.start()
    except RuntimeError as e:
        raise OSError(errno.EAGAIN, "no thread could be started; the machine's limit of processes is reached") from e
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def raise_loopback() -> None:
    """Bring up `lo` in this thread's network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack_from("16sH", fcntl.ioctl(probe, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))


def make_two_pipes() -> tuple[tuple[int, int], tuple[int, int]]:
    first = os.pipe()
    try:
        return first, os.pipe()
    except OSError:
        close_all(first)
        raise


def close_but(spared: set[int]) -> None:
    """Close all other descriptors: a forked child without exec has all of its parent's."""
    with os.scandir("/proc/self/fd") as entries:
        others = [int(entry.name) for entry in entries]
    for fd in others:
        if fd not in spared:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)


def close_all(fds: Iterable[int]) -> None:
    for fd in fds:
        os.close(fd)
