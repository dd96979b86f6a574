"""What a keeper does for itself before it serves: a mount namespace of its own, and the limits desks need."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from hotdesk import config
from hotdesk.desk import bundle, kernel

FILE_TABLE = (1 << 63) - 1


def seclude(settings: config.Config) -> None:
    """Give this process a mount namespace of its own, with a private place for rooms.

    The unified hierarchy of a hybrid host is hidden there: crun 1.8 refuses hosts on which it sees both.
    """
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    unified = "/sys/fs/cgroup/unified"
    if os.path.ismount(unified):
        kernel.umount(unified)
    private = settings.run / "private"
    private.mkdir(mode=0o711, parents=True, exist_ok=True)
    kernel.mount("rooms", str(private), "tmpfs", kernel.MS_NOSUID, "size=1m,mode=711")


def raise_core_limit() -> None:
    """Have the limit desks need: sudo leaves 0, which does not stop a piped core pattern."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (bundle.LIMITS["CORE"],) * 2)
    except ValueError:
        pass  # it was lower, and this root may not raise it


def raise_file_table() -> None:
    """Leave the number of open files to memory limits, as systemd does: a full table would be the host's, too."""
    table = Path("/proc/sys/fs/file-max")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    try:
        if int(table.read_text()) < FILE_TABLE:
            table.write_text(str(FILE_TABLE))
    except OSError:
        pass  # this root may not; doctor's to tell
