"""The lock of a server's state directory: two servers would burn each other's sandboxes and change the same files."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from hotdesk.config import Config
from hotdesk.errors import HostError
from hotdesk.linux import private_files

FOLDER, LOCK = "serve", "server.lock"
WAIT_SECONDS = 2.0
"""Seconds to wait for a server that is about to end."""
_RETRY_S = 0.05
_MAX_PID_BYTES = 20


@asynccontextmanager
async def hold_state(settings: Config) -> AsyncIterator[None]:
    """Hold the lock for the length of a block; raise `HostError` if another server has it.

    The lock is one of POSIX: it ends with this process, and no child inherits it.
    """
    folder = settings.lib / FOLDER
    private_files.make_folder(folder)
    with private_files.enter_folder(folder) as place, private_files.translate_errors(folder / LOCK):
        fd = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=place)
    try:
        end = time.monotonic() + WAIT_SECONDS
        while not _try_lock(fd):
            if time.monotonic() >= end:
                raise HostError(
                    f"another server (process {_read_pid(fd)}) already uses the state directory {settings.lib}; stop "
                    "it, or give this one another directory with HOTDESK_HOME"
                )
            await anyio.sleep(_RETRY_S)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # POSIX allows either
        return False
    return True


def _read_pid(fd: int) -> str:
    found = os.pread(fd, _MAX_PID_BYTES, 0)
    return found.decode() if found.isdigit() else "?"
