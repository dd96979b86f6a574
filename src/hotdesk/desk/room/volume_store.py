"""Volumes on this machine: an ext4 file each, of a fixed size, that outlives desks.

A file system of its own limits what desks write, in bytes and in files, and shares no metadata with other tenants. All
keepers mount one file through the same loop device, because the kernel treats a second device as a second file system.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.desk.room.ext4 import PIECE, list_extents
from hotdesk.errors import BriefError, DeskError, HostError
from hotdesk.linux import loopdev, syscalls, uids
from hotdesk.linux.filesystem import FLAGS, run_tool
from hotdesk.linux.openat2 import STRICT, openat2

FILES, STAGING = "files", "staging"
"""Directories of a volume: the files that desks see, and unfinished writes of the content API."""
_FORMAT = ("-q", "-F", "-m0", "-b4096", "-O", "^resize_inode", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")

_LOCK_TIMEOUT_S = 1.0
_UNMOUNT_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.005


class VolumeStore:
    """The volumes of one state directory, as one keeper uses them."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder = folder
        """The folder with the volumes' files."""
        self.place = place
        """Where they are mounted, in the keeper's own mount namespace."""

    def get_file(self, volume: str) -> Path:
        return self.folder / f"{volume}.ext4"

    def _get_fresh_file(self, volume: str) -> Path:
        """Return the name of a volume's file while it is being made."""
        return self.folder / f"{volume}.new"

    def make(self, volume: str, size: int, source: str = "") -> None:
        """Create a volume, empty or as a copy of another, atomically.

        The original must not be in use: a copy of a file system during writes is damaged.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._get_fresh_file(volume)
        try:
            fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise DeskError(f"volume {volume} is already being created") from None
        try:
            if source:
                self.copy(source, fd, size)
            else:
                os.ftruncate(fd, size)
                run_tool("mkfs.ext4", *_FORMAT, str(fresh))
                self.furnish(volume, fd)
            os.link(fresh, self.get_file(volume))
        except FileExistsError:
            raise DeskError(f"volume {volume} exists already") from None
        finally:
            os.close(fd)
            fresh.unlink(missing_ok=True)

    def furnish(self, volume: str, fd: int) -> None:
        """Create the directories of an empty file system; the desk's user owns the visible one."""
        at = self.place / f"new-{volume}"
        at.mkdir(mode=0o700, parents=True)
        try:
            device, descriptor = loopdev.attach(fd, f"hotdesk-{volume}")
            try:
                syscalls.mount(device, str(at), "ext4", FLAGS)
            finally:
                os.close(descriptor)
            try:
                (at / "lost+found").rmdir()
                (at / STAGING).mkdir(mode=0o700)
                (at / FILES).mkdir(mode=0o755)
                os.chown(at / FILES, uids.USER, uids.USER)
            finally:
                syscalls.umount(str(at))
        finally:
            at.rmdir()

    def copy(self, source: str, target: int, size: int) -> None:
        with self.hold(source) as fd:
            if not self.wait_unused(source):
                raise DeskError(f"volume {source} is in use; copy it when no sandbox has it mounted")
            if os.fstat(fd).st_size != size:
                raise BriefError(f"a copy of volume {source} must have the same size, {os.fstat(fd).st_size} bytes")
            os.ftruncate(target, size)
            for start, end in list_extents(fd, size):
                while start < end:
                    start += os.copy_file_range(fd, target, min(PIECE, end - start), start, start)

    def drop(self, volume: str) -> None:
        """Delete a volume, and what a keeper that was ended while making it left. A missing volume is no error.

        Existing mounts keep its blocks until they are removed.
        """
        self.get_file(volume).unlink(missing_ok=True)
        self._get_fresh_file(volume).unlink(missing_ok=True)

    def wait_unused(self, volume: str) -> bool:
        """Wait for a volume to be unmounted, up to a time limit; the kernel removes a mount with its last user."""
        end = time.monotonic() + _UNMOUNT_TIMEOUT_S
        while (found := loopdev.find(self.get_file(volume))) is not None:
            os.close(found[1])
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_INTERVAL_S)
        return True

    @contextmanager
    def hold(self, volume: str) -> Iterator[int]:
        """Open the file of a volume with an exclusive lock against other keepers.

        The lock is released explicitly: a loop device keeps the open file, and with it the lock.
        """
        try:
            fd = os.open(self.get_file(volume), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            raise BriefError(f"volume {volume} not found") from None
        try:
            end = time.monotonic() + _LOCK_TIMEOUT_S
            while not _lock(fd):
                if time.monotonic() > end:
                    raise DeskError(f"volume {volume} is being copied; try again when that is done")
                time.sleep(_POLL_INTERVAL_S)
            try:
                yield fd
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def mount(self, volume: str, at: Path) -> None:
        at.mkdir(mode=0o700, parents=True)
        try:
            with self.hold(volume) as fd:
                name = f"hotdesk-{volume}"
                device, descriptor = loopdev.find(self.get_file(volume)) or loopdev.attach(fd, name)
                try:
                    syscalls.mount(device, str(at), "ext4", FLAGS, "discard,errors=remount-ro")
                finally:
                    os.close(descriptor)
        except OSError as e:
            raise HostError(f"volume {volume} cannot be mounted: {e.strerror or e}; see `dmesg`") from e
        finally:
            with suppress(OSError):
                if not os.path.ismount(at):
                    at.rmdir()

    def unmount(self, at: Path) -> None:
        syscalls.umount(str(at))
        at.rmdir()

    def show(self, volume: str, at: Path, userns: int) -> None:
        """Mount a volume's visible directory at `at`, owners mapped to a desk's ids, without devices and setuid."""
        top = self.place / f"show-{at.parent.name}-{at.name}"
        self.mount(volume, top)
        try:
            syscalls.mount_idmapped(str(top / FILES), str(at), userns, 0)
        finally:
            self.unmount(top)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_mount_points(root: Path, volumes: Mapping[str, str], owner: int) -> None:
    """Create the directories at which a desk's volumes are mounted; no process of the desk may be running.

    No link is followed: a desk that is restarted may have replaced its mount point by one.
    """
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with syscalls.making_files_as(owner):
            for path in volumes:
                _make_path(fd, path)
    finally:
        os.close(fd)


def _make_path(root: int, path: str) -> None:
    current = os.dup(root)
    try:
        for part in path.strip("/").encode().split(b"/"):
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=current)
            inner = openat2(current, part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, STRICT)
            os.close(current)
            current = inner
    except OSError as e:
        if e.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
            raise
        raise BriefError(
            f"a volume cannot be mounted at {path}: part of that path is a link or a file "
            "in the image; choose another path"
        ) from e
    finally:
        os.close(current)
