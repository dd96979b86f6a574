"""One sparse btrfs file, mounted by every keeper through one loop device, with a size-limited subvolume per desk.

With the kernel's simple quotas a desk's size limit covers what its layer wrote plus the bytes in `charges`, so that a
desk cannot gain space by repeated rollbacks or many snapshots.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from hotdesk.config import GIB, MIB
from hotdesk.desk.room.accounting import Charges
from hotdesk.linux import loopdev, syscalls
from hotdesk.linux.filelock import hold_lock
from hotdesk.linux.filesystem import FLAGS, hold_folder, open_folder, run_tool

# ioctl arguments are bytearrays: Python copies at most 1024 bytes of an immutable one.
SUBVOL_CREATE, SNAP_DESTROY, SNAP_CREATE = 0x5000940E, 0x5000940F, 0x50009417
READ_ONLY = 2
QUOTA_CTL, QGROUP_LIMIT = 0xC0109428, 0x8030942B
QUOTA_ENABLE, QUOTA_ENABLE_SIMPLE = 1, 4
LIMIT_MAX_REFERENCED = 1
INO_LOOKUP, FS_INFO, SYNC = 0xD0009412, 0x8400941F, 0x9408
_ACCOUNTS = 64
"""Quota groups of deleted subvolumes that may await cleanup by the kernel."""
_FIRST_INODE = 256
"""Inode number of every subvolume's root folder."""


class Btrfs:
    """The pool, as mounted by one keeper."""

    plain = True
    is_durable = True

    def __init__(self, file: Path, mounted: Path) -> None:
        self.file = file
        self.mounted = mounted
        self.charges = Charges()
        self.sizes: dict[str, int] = {}
        """Size limit of each desk in bytes."""

    def mount(self) -> None:
        self.mounted.mkdir(mode=0o700, parents=True, exist_ok=True)
        with hold_lock(self.file.with_suffix(".lock")):
            fresh = not self.file.exists()
            if fresh:
                _format_pool(self.file)
            device, descriptor = loopdev.find(self.file) or self.attach()
            try:
                syscalls.mount(device, str(self.mounted), "btrfs", FLAGS, "discard=async,nodatasum")
            finally:
                os.close(descriptor)
            if fresh:
                self.enable_quota()
        with suppress(OSError):
            self.tidy()

    def attach(self) -> tuple[str, int]:
        fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            return loopdev.attach(fd, "hotdesk-pool")
        finally:
            os.close(fd)

    def enable_quota(self) -> None:
        """Enable accounting by subvolume: simple quotas if the kernel has them (6.7), else the older, slower kind."""
        with hold_folder(self.mounted) as root:
            try:
                fcntl.ioctl(root, QUOTA_CTL, struct.pack("=2Q", QUOTA_ENABLE_SIMPLE, 0))
            except OSError:
                fcntl.ioctl(root, QUOTA_CTL, struct.pack("=2Q", QUOTA_ENABLE, 0))

    def make(self, desk: str, size: int, at: Path) -> Path:
        with hold_folder(self.mounted) as root:
            fcntl.ioctl(root, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, desk.encode())))
        self.charges.begin(desk)
        return self.apply_limit(desk, size)

    def snapshot(self, desk: str, name: str, at: Path) -> None:
        """Take a snapshot. The kernel flushes pending writes, and copies nothing."""
        self.branch(desk, name, READ_ONLY)
        try:
            self.charges.keep(desk, name, self.read_usage(desk) if self.simple else 0)
        except OSError:
            self.drop(name)
            raise

    def restore(self, name: str, desk: str, size: int, at: Path) -> Path:
        self.branch(name, desk, 0)
        self.charges.begin(desk, name)
        return self.apply_limit(desk, size)

    def adopt(self, name: str, size: int) -> None:
        self.charges.adopt(name, size)

    def branch(self, source: str, name: str, flags: int) -> None:
        with hold_folder(self.mounted) as root, hold_folder(self.mounted / source) as fd:
            syscalls.ioctl(root, SNAP_CREATE, struct.pack("=q2Q32x4040s", fd, 0, flags, name.encode()))

    def look(self, name: str, at: Path) -> int:
        return open_folder(self.mounted / name / "up")

    def apply_limit(self, desk: str, size: int) -> Path:
        try:
            self.resize(desk, size)
        except OSError:
            self.drop(desk)
            raise
        return self.mounted / desk

    def resize(self, desk: str, size: int) -> None:
        """Limit a subvolume. A pool whose creator was killed too early gets its quotas enabled now."""
        self.sizes[desk] = size
        with hold_folder(self.mounted / desk) as fd:
            most = max(size - self.charges.sum_other_lives(desk), MIB)
            arguments = struct.pack("=6Q", 0, LIMIT_MAX_REFERENCED, most, 0, 0, 0)
            try:
                fcntl.ioctl(fd, QGROUP_LIMIT, arguments)
            except OSError:
                self.enable_quota()
                fcntl.ioctl(fd, QGROUP_LIMIT, arguments)

    def measure_usage(self, desk: str, at: Path) -> int:
        return self.read_usage(desk) + self.charges.sum_other_lives(desk)

    def read_usage(self, desk: str) -> int:
        """Return the kernel's usage of a subvolume in bytes: written, and reserved for pending writes."""
        with hold_folder(self.mounted / desk) as fd:
            arguments = bytearray(struct.pack("=2Q4080x", 0, _FIRST_INODE))
            fcntl.ioctl(fd, INO_LOOKUP, arguments)
        (number,) = struct.unpack_from("=Q", arguments)
        account = self.accounts / f"0_{number}"
        return sum(int((account / name).read_text()) for name in ("referenced", "rsv_data"))

    @cached_property
    def accounts(self) -> Path:
        info = bytearray(1024)
        with hold_folder(self.mounted) as fd:
            fcntl.ioctl(fd, FS_INFO, info)
        name = info[16:32].hex()
        pool = f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
        return Path("/sys/fs/btrfs", pool, "qgroups")

    @property
    def simple(self) -> bool:
        """Return whether the kernel charges a subvolume only for its own writes, not for those of its origin."""
        try:
            return (self.accounts / "mode").read_text().strip() == "squota"
        except FileNotFoundError:
            return False

    def tidy(self, most: int = _ACCOUNTS) -> None:
        """Make the kernel finish deletions if many are pending; otherwise it takes half a minute."""
        if len(os.listdir(self.accounts)) > most:
            with hold_folder(self.mounted) as fd:
                fcntl.ioctl(fd, SYNC)

    def drop(self, name: str) -> None:
        """Delete a subvolume; the kernel frees its blocks in the background."""
        self.charges.drop(name)
        self.sizes.pop(name, None)
        with hold_folder(self.mounted) as root:
            try:
                fcntl.ioctl(root, SNAP_DESTROY, bytearray(struct.pack("=q4088s", 0, name.encode())))
            except OSError as e:
                if e.errno != errno.ENOENT:
                    raise
        if (desk := name.partition(".")[0]) in self.sizes:
            self.resize(desk, self.sizes[desk])  # the snapshot's own blocks count no longer

    def list_leftovers(self) -> list[str]:
        return os.listdir(self.mounted)


def _format_pool(file: Path) -> None:
    """Create a sparse btrfs file of three quarters of the free space."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(file.parent).free
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.truncate(max(free * 3 // 4, GIB) // MIB * MIB)
    fresh.chmod(0o600)
    run_tool("mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single", str(fresh))
    fresh.replace(file)
