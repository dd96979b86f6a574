"""Stop all programs of a virtual machine together, with its guests: a control group that only the first process has.

While they are stopped the machine is saved; in a copy they continue only after the kernel has randomness of its own.
"""

from __future__ import annotations

import errno
import posix
import time

from hotdesk_guest.kernel import check, libc

PLACE = "/run/freezer"
"""Where the file system of control groups is mounted for a moment. Programs never see it."""
GROUP = "desk"
FREEZE_TIMEOUT_S = 20.0
"""Seconds programs may take to stop: one that waits for the disk stops only afterwards."""
_POLL_INTERVAL_S = 0.005
_CLONE_NEWCGROUP = 0x2000000


class ProgramFreezer:
    """The control group of a machine's programs."""

    def __init__(self, mounted: int) -> None:
        """Take the descriptor of the mounted root group, which stays usable after it is unmounted."""
        try:
            posix.mkdir(GROUP, 0o700, dir_fd=mounted)
        except FileExistsError:
            pass
        self.folder = posix.open(GROUP, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC, dir_fd=mounted)

    def write(self, name: str, text: bytes) -> None:
        fd = posix.open(name, posix.O_WRONLY | posix.O_CLOEXEC, dir_fd=self.folder)
        try:
            posix.write(fd, text)
        finally:
            posix.close(fd)

    def admit(self) -> None:
        """Move the calling process into the group; its children will be in it, and see no group beside it."""
        self.write("cgroup.procs", b"0")
        check(libc.unshare(_CLONE_NEWCGROUP), "unshare")

    def freeze(self) -> None:
        """Stop all programs. If some do not stop in time, let all continue and raise `OSError`."""
        self.write("cgroup.freeze", b"1")
        end = time.monotonic() + FREEZE_TIMEOUT_S
        while not self.is_frozen():
            if time.monotonic() > end:
                self.thaw()
                raise OSError(errno.EBUSY, "a program does not stop")
            time.sleep(_POLL_INTERVAL_S)

    def is_frozen(self) -> bool:
        fd = posix.open("cgroup.events", posix.O_RDONLY | posix.O_CLOEXEC, dir_fd=self.folder)
        try:
            return b"frozen 1" in posix.read(fd, 4096)
        finally:
            posix.close(fd)

    def thaw(self) -> None:
        self.write("cgroup.freeze", b"0")
