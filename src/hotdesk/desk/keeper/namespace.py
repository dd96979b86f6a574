"""Prepare the keeper's own mount namespace, with a helpful error if that is refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hotdesk import config
from hotdesk.linux import syscalls


def enter_mount_namespace(settings: config.Config) -> None:
    """Give this process a mount namespace of its own, with a private tmpfs for rooms.

    The unified hierarchy of a hybrid host is unmounted in it: crun 1.8 refuses hosts on which it sees both.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)
    uncover_proc()
    unified = "/sys/fs/cgroup/unified"
    if os.path.ismount(unified):
        syscalls.umount(unified)
    private = settings.run / "private"
    private.mkdir(mode=0o711, parents=True, exist_ok=True)
    syscalls.mount("rooms", str(private), "tmpfs", syscalls.MS_NOSUID, "size=1m,mode=711")


def uncover_proc() -> None:
    """Mount a fresh /proc if parts of it are covered, as the kernel requires for mounting another in a desk.

    Container engines cover parts of /proc. If this process may not mount one, the error appears when a desk opens.
    """
    if not is_covered(Path("/proc/self/mountinfo").read_text()):
        return
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    try:
        syscalls.mount("proc", "/proc", "proc", flags)
    except OSError as e:
        if e.errno not in (errno.EPERM, errno.EACCES):
            raise


def is_covered(mountinfo: str) -> bool:
    """Return whether something is mounted below /proc, except at binfmt_misc, an empty folder made for a mount."""
    points = [fields[4] for line in mountinfo.splitlines() if len(fields := line.split(" ")) > 4]
    return any(point.startswith("/proc/") and point != "/proc/sys/fs/binfmt_misc" for point in points)


def explain_refusal(error: OSError) -> str:
    """Explain a system call that the host refuses: in a container, the engine decides what is permitted."""
    if error.errno not in (errno.EPERM, errno.EACCES, errno.EROFS):
        return str(error)
    from hotdesk.linux import host_kind  # imported only on failure: keepers start in milliseconds

    host = host_kind.look()
    where = f"this is {host.describe()}; " if host.is_container else ""
    return f"{error}; {where}`hotdesk doctor` shows what is missing on this host and how to add it"
