"""Loop devices, which present a file as a disk: detached with their last user, and shared by keepers."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from pathlib import Path

LOOP_CTL_GET_FREE, LOOP_CONFIGURE, LOOP_GET_STATUS64 = 0x4C82, 0x4C0A, 0x4C05
_AUTOCLEAR = 4
_INFO64 = struct.Struct("=5Q4I64s64s32s2Q")
CONFIG = struct.Struct(f"=2I{_INFO64.size}s8Q")
TRIES = 64
_CONTROL = (stat.S_IFCHR, 10, 237)
_DISK_MAJOR = 7
"""The kernel's device numbers (`Documentation/admin-guide/devices.txt`)."""


def attach(file: int, name: str) -> tuple[str, int]:
    """Attach an open file to a free loop device; return its path and a descriptor that keeps it until it is mounted."""
    control = _open_device("/dev/loop-control", *_CONTROL)
    try:
        for _ in range(TRIES):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            path = f"/dev/loop{number}"
            device = _open_device(path, stat.S_IFBLK, _DISK_MAJOR, number)
            info = _INFO64.pack(0, 0, 0, 0, 0, 0, 0, 0, _AUTOCLEAR, name.encode()[:63], b"", b"", 0, 0)
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
    raise OSError(errno.EBUSY, f"no loop device was free in {TRIES} attempts; the machine may be overloaded, try again")


def find(file: Path) -> tuple[str, int] | None:
    """Return the loop device that already has this file, and a descriptor that keeps it until it is mounted, or `None`.

    Files are compared by device and inode, not by name: sysfs has the name as the attaching process saw it, and a
    second device on one btrfs file would be a second file system to the kernel.
    """
    info = os.stat(file)
    for entry in Path("/sys/block").glob("loop*/loop"):
        path = f"/dev/{entry.parent.name}"
        try:
            device = _open_device(path, stat.S_IFBLK, _DISK_MAJOR, int(entry.parent.name.removeprefix("loop")))
        except OSError:
            continue  # it is being detached
        try:
            shown, inode = _INFO64.unpack(fcntl.ioctl(device, LOOP_GET_STATUS64, bytes(_INFO64.size)))[:2]
        except OSError:
            os.close(device)
            continue
        if inode == info.st_ino and (os.major(shown), os.minor(shown)) == (
            os.major(info.st_dev),
            os.minor(info.st_dev),
        ):
            return path, device
        os.close(device)
    return None


def _open_device(path: str, kind: int, major: int, minor: int) -> int:
    """Open a loop device. In a container, where nodes of new devices are not created automatically, create its node."""
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        try:
            os.mknod(path, kind | 0o600, os.makedev(major, minor))
        except FileExistsError:
            pass  # another process was faster
        return os.open(path, flags)
