"""Files that only one user may read: written atomically, never through a link.

Root writes into a folder of a less privileged user, so any name in it may be a trap. Names are opened relative to the
folder's descriptor, links are not followed, and files that root creates get the folder's owner.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.linux import uids

MAX_FILE_BYTES = 64 << 20
"""Maximum bytes of a file that is read."""
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_folder(folder: Path, owner: int | None = None) -> None:
    """Create a folder that only its owner may enter, unless it exists. Root may give it to another user."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if owner is not None and os.geteuid() == 0:
            uids.give_empty_folder(folder, owner)
    except OSError as e:
        raise HostError(f"cannot create the folder {folder}: {e.strerror}") from e


@contextmanager
def enter_folder(folder: Path) -> Iterator[int]:
    """Yield a descriptor of a folder; raise `HostError` if other users may enter it."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as e:
        raise HostError(f"the folder {folder} cannot be opened: {e.strerror}") from e
    try:
        if os.fstat(fd).st_mode & 0o077:
            raise HostError(f"other users can enter {folder}, which contains secrets; run `chmod 700 {folder}`")
        yield fd
    finally:
        os.close(fd)


def read(folder: Path, name: str, *, public: bool = False) -> bytes | None:
    """Return a file of a private folder, or `None` if it is missing; raise `HostError` if others may access it.

    A `public` file may be readable by others, but not writable.
    """
    with enter_folder(folder) as place:
        try:
            fd = os.open(name, READ, dir_fd=place)
        except FileNotFoundError:
            return None
        except OSError as e:
            why = "it is a symbolic link; replace it with the file" if e.errno == errno.ELOOP else e.strerror
            raise HostError(f"{folder / name} cannot be read: {why}") from e
        with open(fd, "rb") as file:
            check(os.fstat(fd), folder / name, 0o022 if public else 0o077)
            return file.read(MAX_FILE_BYTES)


def check(found: os.stat_result, path: Path, forbidden: int) -> None:
    """Raise `HostError` for a special file, one that others may access, or one larger than any of hotdesk's."""
    if not stat.S_ISREG(found.st_mode):
        raise HostError(f"{path} is not a regular file; move it away")
    if found.st_mode & forbidden:
        raise HostError(
            f"other users can access {path}: its mode is {stat.S_IMODE(found.st_mode):o}; run `chmod 600 {path}`"
        )
    if found.st_size > MAX_FILE_BYTES:
        raise HostError(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB, so it is not hotdesk's file; move it away")


def write(folder: Path, name: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: after a crash it has the old content or the new."""
    with (
        enter_folder(folder) as place,
        translate_errors(folder / name),
        _write_temporary(place, name, data, mode) as temporary,
    ):
        os.rename(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        os.fsync(place)


def write_first(folder: Path, name: str, data: bytes, mode: int = 0o600) -> bool:
    """Write a file atomically if it is missing; return False if it already exists."""
    with (
        enter_folder(folder) as place,
        translate_errors(folder / name),
        _write_temporary(place, name, data, mode) as temporary,
    ):
        try:
            os.link(temporary, name, src_dir_fd=place, dst_dir_fd=place)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary, dir_fd=place)
        os.fsync(place)
        return True


@contextmanager
def _write_temporary(place: int, name: str, data: bytes, mode: int) -> Iterator[str]:
    """Write a temporary file for the length of a block; remove it if the block fails."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    fd = create(place, temporary, mode)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(fd)
        yield temporary
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=place)
        raise


def create(place: int, name: str, mode: int = 0o600) -> int:
    """Create a new file; if root does, the file gets the folder's owner."""
    fd = os.open(name, MAKE, mode, dir_fd=place)
    os.fchmod(fd, mode)
    if os.geteuid() == 0:
        owner = os.fstat(place)
        os.fchown(fd, owner.st_uid, owner.st_gid)
    return fd


def narrow(folder: Path) -> int:
    """Take from the group what is not everyone's, of all this process owns below a folder; return how many changed.

    Kubernetes gives a volume's files to its group at every mount (`fsGroup`: 0660 for files, 2770 for folders), and
    hotdesk gives a group nothing. What everyone may do stays as it is: that was a person's doing, who must be told.
    """
    changed = 0
    for _, _, files, place in os.fwalk(folder, topdown=False):
        for name in files:
            with suppress(OSError):  # a link, a socket, or removed meanwhile
                fd = os.open(name, READ, dir_fd=place)
                try:
                    changed += _narrow_one(fd)
                finally:
                    os.close(fd)
        changed += _narrow_one(place)
    return changed


def _narrow_one(fd: int) -> bool:
    found = os.fstat(fd)
    mode = stat.S_IMODE(found.st_mode)
    narrowed = mode & ~(0o070 & ~(mode << 3))
    is_ours = found.st_uid == os.geteuid() and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))
    if narrowed == mode or not is_ours:
        return False
    os.fchmod(fd, narrowed)
    return True


def remove(folder: Path, name: str) -> None:
    with enter_folder(folder) as place, translate_errors(folder / name), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=place)
        os.fsync(place)


@contextmanager
def hold_lock(folder: Path, name: str) -> Iterator[None]:
    """Hold a lock file for the length of a block; wait until it is free."""
    with enter_folder(folder) as place, translate_errors(folder / name):
        try:
            fd = create(place, name)
        except FileExistsError:
            fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise HostError(
            f"{path} cannot be written: {e.strerror}; check the disk space and the owner of the folder"
        ) from e
