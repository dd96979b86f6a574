"""Which programs of a desk go on while a person holds the wheel: the image's own screen, window manager and browser.

A program is known by its file, as the image has it: what a desk wrote itself, or put in a file's place, is not spared.
The keeper asks the kernel which file a process runs, and reads no byte of it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from hotdesk.linux import uids
from hotdesk.linux.openat2 import RootDirectory, open_strictly

Program: TypeAlias = tuple[int, int]
"""A file, as the kernel knows it: its file system and its number there."""

SPARED = (
    b"usr/bin/Xtigervnc",
    b"usr/bin/Xvnc",
    b"usr/bin/openbox",
    b"usr/bin/tint2",
    b"usr/lib/chromium/chromium",
    b"usr/lib/chromium/chrome_crashpad_handler",
)
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def find_spared_programs(folder: Path, base: int) -> set[Program]:
    with RootDirectory(folder / "root") as shown, RootDirectory(folder / "w/up") as written:
        return {
            program for name in SPARED if not exists(written, name) and (program := find(shown, name, base)) is not None
        }


def exists(folder: RootDirectory, name: bytes) -> bool:
    try:
        os.close(open_strictly(folder.fd, name, os.O_PATH))
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def find(folder: RootDirectory, name: bytes, base: int) -> Program | None:
    with suppress(OSError):
        fd = open_strictly(folder.fd, name, os.O_PATH)
        try:
            status = os.fstat(fd)
        finally:
            os.close(fd)
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_uid != base + uids.USER
            and not status.st_mode & _OTHERS_MAY_WRITE
        ):
            return status.st_dev, status.st_ino
    return None


def runs(pid: int, programs: set[Program]) -> bool:
    """Return whether a process runs one of these programs; False for one that is gone, or has no file any more."""
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in programs
