"""What a keeper does for itself before it serves: a mount namespace of its own."""

from __future__ import annotations

import os

from hotdesk import config
from hotdesk.linux import syscalls


def seclude(settings: config.Config) -> None:
    """Give this process a mount namespace of its own, with a private place for rooms.

    The unified hierarchy of a hybrid host is hidden there: crun 1.8 refuses hosts on which it sees both.
    """
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)
    unified = "/sys/fs/cgroup/unified"
    if os.path.ismount(unified):
        syscalls.umount(unified)
    private = settings.run / "private"
    private.mkdir(mode=0o711, parents=True, exist_ok=True)
    syscalls.mount("rooms", str(private), "tmpfs", syscalls.MS_NOSUID, "size=1m,mode=711")
