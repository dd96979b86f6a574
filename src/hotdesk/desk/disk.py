"""Writable layers with a hard size limit: a btrfs pool shared by all desks, an ext4 file each, or memory.

btrfs is first because a subvolume costs 3 ms and a snapshot follows what changed; ext4 works where btrfs does not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from hotdesk.config import GIB, MIB, Config
from hotdesk.desk import kernel, loop
from hotdesk.desk.lock import locked
from hotdesk.errors import HostError

FLAGS = kernel.MS_NODEV | kernel.MS_NOSUID | kernel.MS_NOATIME
INODES_PER_MIB = 256

# ioctl arguments are bytearrays: Python copies at most 1024 bytes of an immutable one.
SUBVOL_CREATE, SNAP_DESTROY = 0x5000940E, 0x5000940F
QUOTA_CTL, QGROUP_LIMIT = 0xC0109428, 0x8030942B
QUOTA_ENABLE, QUOTA_ENABLE_SIMPLE = 1, 4
LIMIT_MAX_REFERENCED = 1
INO_LOOKUP, FS_INFO, SYNC = 0xD0009412, 0x8400941F, 0x9408
ACCOUNTS = 64
"""Accounts of deleted subvolumes that may wait for the kernel to close them."""
FIRST_INODE = 256
"""The root folder of every subvolume."""


class Disk(Protocol):
    """Where writable layers lie."""

    def make(self, desk: str, size: int, at: Path) -> Path:
        """Give an empty directory that can hold `size` bytes and no more; mounts, if any, go to `at`."""
        ...

    def drop(self, desk: str) -> None:
        """Delete a desk's layer, already unmounted. Absent is no error."""
        ...

    def used(self, desk: str, at: Path) -> int:
        """Say how many bytes a desk's layer holds."""
        ...

    def left(self) -> list[str]:
        """List the desks whose layers exist."""
        ...


class Memory:
    """A tmpfs each: its pages are charged to whoever writes them, so to the desk."""

    def make(self, desk: str, size: int, at: Path) -> Path:
        """Mount a tmpfs of this size."""
        inodes = max(4096, size // MIB * INODES_PER_MIB)
        kernel.mount("disk", str(at), "tmpfs", FLAGS, f"size={size},nr_inodes={inodes},mode=755")
        return at

    def used(self, desk: str, at: Path) -> int:
        """Ask the file system."""
        return taken(at)

    def drop(self, desk: str) -> None:
        """Do nothing: it went with its mount."""

    def left(self) -> list[str]:
        """List nothing: a killed keeper's mounts are gone with it."""
        return []


class Ext4:
    """A sparse ext4 file each, deleted as soon as it is attached, so that nothing survives its mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, desk: str, size: int, at: Path) -> Path:
        """Format and mount a file of this size."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.folder / desk
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, max(size, 4 * MIB))
            extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
            tool("mkfs.ext4", "-q", "-F", "-m0", "-b4096", "-O", "^has_journal", "-E", extended, str(file))
            device, held = loop.attach(fd, desk)
            try:
                kernel.mount(device, str(at), "ext4", FLAGS)
            finally:
                os.close(held)
        finally:
            os.close(fd)
            file.unlink()
        with suppress(FileNotFoundError):
            (at / "lost+found").rmdir()
        return at

    def used(self, desk: str, at: Path) -> int:
        """Ask the file system."""
        return taken(at)

    def drop(self, desk: str) -> None:
        """Delete a file whose keeper was killed before it could."""
        (self.folder / desk).unlink(missing_ok=True)

    def left(self) -> list[str]:
        """List files of keepers killed while formatting."""
        return [file.name for file in self.folder.iterdir()] if self.folder.exists() else []


class Btrfs:
    """One sparse btrfs file, mounted by every keeper through one loop device; a limited subvolume each."""

    def __init__(self, file: Path, mounted: Path) -> None:
        self.file = file
        self.mounted = mounted

    def mount(self) -> None:
        """Mount the pool here, making it first where there is none."""
        self.mounted.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(self.file.with_suffix(".lock")):
            fresh = not self.file.exists()
            if fresh:
                format_pool(self.file)
            device, held = loop.find(self.file) or self.attach()
            try:
                kernel.mount(device, str(self.mounted), "btrfs", FLAGS, "discard=async,nodatasum")
            finally:
                os.close(held)
            if fresh:
                self.enable_quota()
        with suppress(OSError):
            self.tidy()

    def attach(self) -> tuple[str, int]:
        """Give the pool a loop device."""
        fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        try:
            return loop.attach(fd, "hotdesk-pool")
        finally:
            os.close(fd)

    def enable_quota(self) -> None:
        """Account by subvolume: simple quotas where the kernel has them (6.7), else the older, slower kind."""
        with opened(self.mounted) as root:
            try:
                fcntl.ioctl(root, QUOTA_CTL, struct.pack("=2Q", QUOTA_ENABLE_SIMPLE, 0))
            except OSError:
                fcntl.ioctl(root, QUOTA_CTL, struct.pack("=2Q", QUOTA_ENABLE, 0))

    def make(self, desk: str, size: int, at: Path) -> Path:
        """Make a limited subvolume."""
        with opened(self.mounted) as root:
            fcntl.ioctl(root, SUBVOL_CREATE, bytearray(struct.pack("=q4088s", 0, desk.encode())))
        layer = self.mounted / desk
        try:
            self.limit(layer, size)
        except OSError:
            self.drop(desk)
            raise
        return layer

    def limit(self, layer: Path, size: int) -> None:
        """Limit a subvolume; a pool whose maker was killed too early gets its quotas now."""
        with opened(layer) as fd:
            asked = struct.pack("=6Q", 0, LIMIT_MAX_REFERENCED, size, 0, 0, 0)
            try:
                fcntl.ioctl(fd, QGROUP_LIMIT, asked)
            except OSError:
                self.enable_quota()
                fcntl.ioctl(fd, QGROUP_LIMIT, asked)

    def used(self, desk: str, at: Path) -> int:
        """Read the kernel's account of a subvolume: what is written, and what waits to be."""
        with opened(self.mounted / desk) as fd:
            asked = bytearray(struct.pack("=2Q4080x", 0, FIRST_INODE))
            fcntl.ioctl(fd, INO_LOOKUP, asked)
        (number,) = struct.unpack_from("=Q", asked)
        account = self.accounts() / f"0_{number}"
        return sum(int((account / name).read_text()) for name in ("referenced", "rsv_data"))

    def accounts(self) -> Path:
        """Give the folder in which the kernel shows its accounts, one a subvolume."""
        info = bytearray(1024)
        with opened(self.mounted) as fd:
            fcntl.ioctl(fd, FS_INFO, info)
        name = info[16:32].hex()
        pool = f"{name[:8]}-{name[8:12]}-{name[12:16]}-{name[16:20]}-{name[20:]}"
        return Path("/sys/fs/btrfs", pool, "qgroups")

    def tidy(self, most: int = ACCOUNTS) -> None:
        """Have the kernel finish deletions when many wait: by itself it does so half a minute later."""
        if len(os.listdir(self.accounts())) > most:
            with opened(self.mounted) as fd:
                fcntl.ioctl(fd, SYNC)

    def drop(self, desk: str) -> None:
        """Delete the subvolume; the kernel frees its blocks in the background."""
        with opened(self.mounted) as root:
            try:
                fcntl.ioctl(root, SNAP_DESTROY, bytearray(struct.pack("=q4088s", 0, desk.encode())))
            except OSError as e:
                if e.errno != errno.ENOENT:
                    raise

    def left(self) -> list[str]:
        """List the subvolumes."""
        return os.listdir(self.mounted)


def choose(config: Config) -> Disk:
    """Mount the pool the operator chose, or the first kind that works on this machine."""
    failures = []
    if config.disk in ("btrfs", "auto"):
        pool = Btrfs(config.lib / "pool.btrfs", config.run / "pool")
        try:
            pool.mount()
            return pool
        except (OSError, HostError) as e:
            failures.append(f"btrfs: {e}")
    if config.disk in ("ext4", "auto"):
        return Ext4(config.lib / "disks")
    raise HostError(f'no disk for desks ({"; ".join(failures) or config.disk}); set disk = "ext4" in config.toml')


def format_pool(file: Path) -> None:
    """Make a sparse btrfs file as large as three quarters of what is free now."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    free = shutil.disk_usage(file.parent).free
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.truncate(max(free * 3 // 4, GIB) // MIB * MIB)
    fresh.chmod(0o600)
    tool("mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single", str(fresh))
    fresh.replace(file)


def tool(*argv: str) -> None:
    """Run one of the file system tools, quietly."""
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        done = subprocess.run(
            argv, check=False, env={"PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
    except FileNotFoundError as e:
        raise HostError(f"{argv[0]} is not installed; run `hotdesk setup`") from e
    except subprocess.TimeoutExpired as e:
        raise HostError(f"{argv[0]} did not end within a minute; is the machine overloaded?") from e
    if done.returncode:
        raise HostError(f"{argv[0]} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")


def taken(folder: Path) -> int:
    """Say how many bytes of a file system are taken."""
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """Hold a directory open."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
