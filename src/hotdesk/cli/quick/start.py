"""Starts a holder: a process in a session of its own that inherits only two descriptors."""

from __future__ import annotations

import fcntl
import os
import sys

from hotdesk.cli.quick.place import SOURCE, Place, get_holder_environment
from hotdesk.linux.ownership import is_private

LOCK, TURN = 3, 4
"""Descriptors of a holder: the lock of its name, and a pipe that is closed when it may start."""
HIGH = 200
"""Temporary numbers for the two descriptors: the one moved to 3 may be the one that must become 4."""
START = (
    "import os,select,sys;os.closerange(5,1<<30);select.select([4],[],[],1);os.close(4);"
    "os.chdir('/');os.umask(0o22);sys.path.insert(0,sys.argv[1]);from hotdesk.cli.holder import process;process.main()"
)
"""Start code of a holder. Other descriptors inherited from a shell, such as a lock, are closed first."""


def start(place: Place, name: str, *, later: bool = False) -> None:
    """Start the named holder unless it is running or starting; do not wait for it.

    With `later` it waits until this process has ended, at most a second, so that a short command has the CPU.
    """
    lock = null = reading = writing = -1
    try:
        lock = _take(place, name)
        if lock < 0:
            return
        reading, writing = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-c", START, SOURCE, name],
            {"PATH": os.environ.get("PATH", os.defpath), **get_holder_environment()},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, fd, high) for fd, high in ((lock, HIGH), (reading, HIGH + 1))),
                *((os.POSIX_SPAWN_DUP2, high, fd) for high, fd in ((HIGH, LOCK), (HIGH + 1, TURN))),
                *((os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)),
            ],
            setsid=True,
            setsigmask=(),
        )
    except OSError:
        pass  # out of resources: commands work without a holder
    finally:
        for fd in (lock, null, reading, -1 if later else writing):
            if fd >= 0:
                os.close(fd)


def _take(place: Place, name: str) -> int:
    """Take the lock of a holder's name in a folder that only this user can write to; return -1 if it is taken."""
    before = os.umask(0o22)
    try:
        for folder in (place.run, place.control):
            os.makedirs(folder, mode=0o711, exist_ok=True)
    finally:
        os.umask(before)
    if not is_private(place.control):
        return -1
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(f"{place.control}/holder-{name}.lock", flags, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return -1
    return lock
