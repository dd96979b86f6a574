"""Create user namespaces of a user that runs no process, so that their limits are their own.

If root made a desk's namespace, all desks' inotify watches, signals and other limits would count as root's.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from hotdesk.linux.libc import check, libc
from hotdesk.linux.syscalls import CAP_SYS_ADMIN, CLONE_NEWUSER, set_effective_capabilities

_SYS_SETRESUID = {"x86_64": 117, "aarch64": 147}
_SYS_SETRESGID = {"x86_64": 119, "aarch64": 149}
_CLONE_VM, _CLONE_VFORK = 0x100, 0x4000
_WALL = 0x40000000
"""Flag of waitpid(2) to also wait for a child that sends no signal when it exits."""
_ALL_SIGNALS = signal.valid_signals()
_STACK_BYTES = 1 << 16
_EXIT = ctypes.cast(libc["_exit"], ctypes.c_void_p)


def make(creator: int, ids: str) -> int:
    """Return the descriptor of a new user namespace that is owned by `creator` and has this map of user and group ids.

    Only a process can create one. It ends at once, and shares memory with this one instead of copying it, as with
    vfork(2): a fork of a keeper would cost 5 ms. The namespace can be opened until the process is reaped.
    """
    with _acting_as(creator):
        child = _clone_and_exit(CLONE_NEWUSER)
    try:
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{name}", "wb", 0) as file:
                file.write(ids.encode())
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.waitpid(child, _WALL)


def _clone_and_exit(flags: int) -> int:
    """Clone a child that exits at once; return its pid when it has. Its parent waits, so its stack is free again.

    No signal reaches the child, because a handler would run in the shared memory.
    """
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    top = ctypes.c_void_p(ctypes.addressof(stack) + _STACK_BYTES & ~15)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)
    try:
        child: int = libc.clone(_EXIT, top, ctypes.c_int(_CLONE_VM | _CLONE_VFORK | flags), None)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return check(child, "no user namespace could be created; see `sysctl user.max_user_namespaces`")


@contextmanager
def _acting_as(uid: int) -> Iterator[None]:
    """Make this thread a user who may create user namespaces, even if the machine allows only root to create them.

    One capability of root stays effective. System calls instead of `os.setresuid`, which changes all threads. The
    kernel then clears this thread's parent-death signal and makes the process undumpable: set both afterwards.
    """
    try:
        _set_ids(_SYS_SETRESGID, uid)
        _set_ids(_SYS_SETRESUID, uid)
        set_effective_capabilities(CAP_SYS_ADMIN)
        yield
    finally:
        _set_ids(_SYS_SETRESUID, 0)
        set_effective_capabilities()
        _set_ids(_SYS_SETRESGID, 0)


def _set_ids(numbers: Mapping[str, int], uid: int) -> None:
    """Set this thread's real and effective ids. The saved ones stay root's, so that root's can be restored."""
    same = ctypes.c_uint(uid)
    check(libc.syscall(numbers[os.uname().machine], same, same, ctypes.c_uint(0)), f"setresuid {uid}")
