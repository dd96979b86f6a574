"""Writable layers with a hard size limit: a btrfs pool shared by all desks, an ext4 file each, or memory.

btrfs is preferred because a subvolume takes 3 ms, and a snapshot only stores changes. ext4 works where btrfs does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from hotdesk.config import MIB, Config
from hotdesk.desk.room.btrfs import Btrfs
from hotdesk.desk.room.ext4 import Ext4
from hotdesk.errors import DeskError, HostError
from hotdesk.linux import syscalls
from hotdesk.linux.filesystem import FLAGS, count_used_bytes

_INODES_PER_MIB = 256
_NO_SNAPSHOTS = "a desk whose disk is in memory has no snapshots; open a desk with disk_in='disk'"


class Disk(Protocol):
    """Stores writable layers. A snapshot is a named layer that is never written to."""

    @property
    def plain(self) -> bool:
        """Return whether file owners are stored as in an image, and mapped to a desk's user ids by the mount."""
        ...

    @property
    def is_durable(self) -> bool:
        """Return whether snapshots can outlive the keeper that took them."""
        ...

    def adopt(self, name: str, size: int) -> None:
        """Register a snapshot of another keeper with its accounted size in bytes."""
        ...

    def make(self, desk: str, size: int, at: Path) -> Path:
        """Return an empty directory limited to `size` bytes; a mount, if needed, goes to `at`."""
        ...

    def resize(self, desk: str, size: int) -> None:
        """Change a layer's size limit. Raise `DeskError` if that is impossible."""
        ...

    def snapshot(self, desk: str, name: str, at: Path) -> None:
        """Take a snapshot of a layer; no process may write to it meanwhile."""
        ...

    def restore(self, name: str, desk: str, size: int, at: Path) -> Path:
        """Make a layer like `make`, with the content of a snapshot."""
        ...

    def look(self, name: str, at: Path) -> int:
        """Open a snapshot's files for reading; a mount, if needed, is made at `at` and detached before returning."""
        ...

    def drop(self, name: str) -> None:
        """Delete a snapshot or an unmounted layer. A missing one is no error."""
        ...

    def measure_usage(self, desk: str, at: Path) -> int:
        """Return the bytes charged to a desk's layer."""
        ...

    def list_leftovers(self) -> list[str]:
        """List the layers and snapshots that exist."""
        ...


class Memory:
    """A tmpfs per layer; its pages are charged to the writing process, and so to the desk's memory."""

    plain = False
    """tmpfs supports no mapped owners before Linux 6.3."""
    is_durable = False

    def adopt(self, name: str, size: int) -> None:
        raise DeskError(_NO_SNAPSHOTS)

    def make(self, desk: str, size: int, at: Path) -> Path:
        inodes = max(4096, size // MIB * _INODES_PER_MIB)
        syscalls.mount("disk", str(at), "tmpfs", FLAGS, f"size={size},nr_inodes={inodes},mode=755")
        return at

    def resize(self, desk: str, size: int) -> None:
        """Refuse: the size is fixed when it is mounted."""
        raise DeskError("a disk in memory cannot be resized; open a desk with the size you need")

    def snapshot(self, desk: str, name: str, at: Path) -> None:
        """Refuse: a copy would count against the desk's own memory."""
        raise DeskError(_NO_SNAPSHOTS)

    def restore(self, name: str, desk: str, size: int, at: Path) -> Path:
        raise DeskError(_NO_SNAPSHOTS)

    def look(self, name: str, at: Path) -> int:
        raise DeskError(_NO_SNAPSHOTS)

    def measure_usage(self, desk: str, at: Path) -> int:
        return count_used_bytes(at)

    def drop(self, name: str) -> None:
        """Do nothing: the data disappeared with its mount."""

    def list_leftovers(self) -> list[str]:
        """Return nothing: a killed keeper's mounts are gone with it."""
        return []


def choose(config: Config) -> Disk:
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
    raise HostError(
        f'no disk can be made for desks ({"; ".join(failures) or config.disk}); set disk = "ext4" in config.toml'
    )
