"""The lock of a job: held by the process that runs it, and released when that process ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotdesk.errors import BriefError

LOCK = "lock"
LOCK_TIMEOUT_S = 0.5
"""Seconds to try to get the lock: `is_held` of another process holds it for a moment."""


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold a job's lock; raise `BriefError` if another process runs the job or its stored data was deleted."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError as e:
        raise BriefError(f"the stored data of job {folder.name} was deleted; `hotdesk jobs` lists the jobs") from e
    except OSError as e:
        raise BriefError(f"the stored data of job {folder.name} cannot be used: {e.strerror}") from e
    try:
        end = time.monotonic() + LOCK_TIMEOUT_S
        while not _try_lock(fd):
            if time.monotonic() > end:
                raise BriefError(f"another process is running job {folder.name}; wait for it, or stop it with Ctrl-C")
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def is_held(folder: Path) -> bool:
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
