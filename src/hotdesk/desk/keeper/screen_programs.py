"""Find the programs that keep running while a person has control: the image's screen, window manager and browser.

A program is identified by the image's file. A file that the desk wrote or replaced is not spared. The keeper asks the
kernel which file a process executes, and never reads its content.
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
"""Device and inode number of a file."""

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
    """Return whether a process executes one of these programs; False if the process or its file is gone."""
    try:
        status = os.stat(f"/proc/{pid}/exe")
    except OSError:
        return False
    return (status.st_dev, status.st_ino) in programs
