"""A disk as a sparse ext4 file, unlinked once it is attached, so that nothing outlives its keeper."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hotdesk.config import MIB
from hotdesk.errors import DeskError
from hotdesk.linux import loopdev, syscalls
from hotdesk.linux.filesystem import FLAGS, count_used_bytes, hold_folder, open_folder, run_tool

PIECE = 64 * MIB


class Ext4:
    """Layers in files of their own; a snapshot is a copy of such a file without its holes."""

    plain = True
    is_durable = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, int] = {}
        """The file descriptor of each layer and snapshot."""

    def make(self, desk: str, size: int, at: Path) -> Path:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.folder / desk
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.files[desk] = fd
        try:
            os.ftruncate(fd, max(size, 4 * MIB))
            extended = "lazy_itable_init=1,lazy_journal_init=1,nodiscard"
            run_tool("mkfs.ext4", "-q", "-F", "-m0", "-b4096", "-O", "^has_journal", "-E", extended, str(file))
            self.mount(desk, at)
        finally:
            file.unlink()
        with suppress(FileNotFoundError):
            (at / "lost+found").rmdir()
        return at

    def mount(self, desk: str, at: Path, flags: int = 0) -> None:
        device, descriptor = loopdev.attach(self.files[desk], desk)
        try:
            syscalls.mount(device, str(at), "ext4", FLAGS | flags)
        finally:
            os.close(descriptor)

    def resize(self, desk: str, size: int) -> None:
        if max(size, 4 * MIB) != os.fstat(self.files[desk]).st_size:
            raise DeskError("the ext4 disk of a desk cannot be resized; open a desk with the size you need")

    def snapshot(self, desk: str, name: str, at: Path) -> None:
        """Flush all writes, and copy the file.

        The file system itself is not frozen: if the keeper were killed meanwhile, it would stay frozen forever.
        """
        with hold_folder(at) as mounted:
            syscalls.syncfs(mounted)
            self.files[name] = self.copy(self.files[desk])

    def restore(self, name: str, desk: str, size: int, at: Path) -> Path:
        """Mount a copy of a snapshot; its size stays the same."""
        self.files[desk] = self.copy(self.files[name])
        self.mount(desk, at)
        return at

    def look(self, name: str, at: Path) -> int:
        at.mkdir(exist_ok=True)
        self.mount(name, at, syscalls.MS_RDONLY)
        try:
            return open_folder(at / "up")
        finally:
            syscalls.umount(str(at))

    def adopt(self, name: str, size: int) -> None:
        """Refuse: a file without a name is lost when its keeper ends."""
        raise DeskError(
            "the desk cannot be resumed: it was hibernated on a btrfs disk, and desks now have ext4 disks; set "
            'disk = "btrfs" in config.toml'
        )

    def copy(self, source: int) -> int:
        """Copy a sparse file into an unnamed one; return its descriptor."""
        target = os.open(self.folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(source).st_size
            os.ftruncate(target, size)
            for start, end in list_extents(source, size):
                while start < end:
                    start += os.copy_file_range(source, target, min(PIECE, end - start), start, start)
        except BaseException:
            os.close(target)
            raise
        return target

    def drop(self, name: str) -> None:
        """Close the file of a layer or snapshot, which deletes it, as it has no name. Remove a killed keeper's file."""
        if (fd := self.files.pop(name, None)) is not None:
            os.close(fd)
        (self.folder / name).unlink(missing_ok=True)

    def measure_usage(self, desk: str, at: Path) -> int:
        return count_used_bytes(at)

    def list_leftovers(self) -> list[str]:
        """List the files of keepers that were killed while formatting."""
        return [file.name for file in self.folder.iterdir()] if self.folder.exists() else []


def list_extents(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield where an open file of a size has data; raise `OSError` if that cannot be read.

    A desk's file can have a hole after each page: a list of its ranges would need much memory.
    """
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:  # there is no data beyond the last written byte
                break
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end
