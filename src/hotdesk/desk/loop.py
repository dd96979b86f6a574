"""Loop devices, which show a file as a disk: attached to vanish with their last user, and shared by keepers."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
AUTOCLEAR = 4
INFO64 = struct.Struct("=5Q4I64s64s32s2Q")
CONFIG = struct.Struct(f"=2I{INFO64.size}s8Q")
TRIES = 64


def attach(file: int, name: str) -> tuple[str, int]:
    """Attach an open file to a free loop device; give its path and a descriptor that keeps it until mounted."""
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            path = f"/dev/loop{number}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            info = INFO64.pack(0, 0, 0, 0, 0, 0, 0, 0, AUTOCLEAR, name.encode()[:63], b"", b"", 0, 0)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, CONFIG.pack(file, 4096, info, *[0] * 8))
            except OSError as e:
                os.close(device)
                if e.errno != errno.EBUSY:  # another process took it between the two calls
                    raise
                continue
            return path, device
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, f"no loop device was free in {TRIES} tries")


def find(file: Path) -> str | None:
    """Give the loop device that already shows this file."""
    for entry in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            shown = entry.read_text().rstrip("\n")
        except OSError:
            continue  # it was detached while we looked
        if shown == str(file):
            return f"/dev/{entry.parts[3]}"
    return None
