"""Copies results into a folder of the person who started the job: complete, owned by them, never through a link.

Root writes there, and the folder's owner may be hostile. So each name is opened relative to its folder's descriptor,
links are not followed, and folders and files are created as the folder's owner, so that the kernel checks the owner's
permissions. All of that happens at the start: later, without privileges, this process only fills files that have no
name yet and then names them.

An existing file is not changed, unless the drive still has its bytes: then it is an earlier copy and is replaced.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.identity import find_invoker
from hotdesk.drive.names import check_name
from hotdesk.errors import BriefError, make_printable

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MODE = 0o666
"""Mode of new files before the umask; none is executable."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class PendingFile:
    """A file that was created and waits for its content."""

    fd: int
    place: int
    """Descriptor of its folder."""
    name: str
    """Its final name."""
    half: str
    """Its temporary name, or `""` if it has none and so vanishes when this process ends."""


class Out:
    """A folder that results are copied to. Create it before any thread starts and before privileges are dropped."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self.folder = folder
        self.fds: list[int] = []
        self.created: list[tuple[int, str]] = []
        self.spares: dict[str, PendingFile] = {}
        try:
            with _explain_errors(folder):
                base = self.keep_open(os.open("/" if folder.is_absolute() else ".", FOLDER))
                base = self.enter(base, folder.parts[1:] if folder.is_absolute() else folder.parts)
            for name in names:
                *parts, last = check_name(name).split("/")
                with _explain_errors(folder / name):
                    self.spares[name] = self.make_spare(self.enter(base, parts), last)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Out:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def copy(self, name: str, pieces: Iterable[bytes], is_stored: Callable[[str], bool]) -> Path:
        """Copy bytes to one of the names; return the path. `is_stored` tells whether the drive has a hash."""
        path, spare, digest = self.folder / name, self.spares[name], hashlib.sha256()
        os.ftruncate(spare.fd, os.lseek(spare.fd, 0, os.SEEK_SET))
        for piece in pieces:  # an error of the source is raised here, before the file has a name
            digest.update(piece)
            with _explain_errors(path, KEPT):
                write_all(spare.fd, piece)
        with _explain_errors(path, KEPT):
            os.fsync(spare.fd)
            there = _digest_at(spare.place, spare.name)
            if there is None:
                self.name_first(spare)
            elif there != digest.hexdigest():
                if not (there and is_stored(there)):
                    raise BriefError(
                        f"{_format_path(path)} exists already and was changed since hotdesk wrote it; move it "
                        f"away{KEPT}"
                    )
                self.name_instead(spare)
            os.fsync(spare.place)
        return path

    def read_existing(self, name: str, most: int) -> bytes | None:
        """Return the file at one of the names, or `None` if it is missing, not regular or larger than `most` bytes."""
        spare = self.spares[name]
        try:
            fd = os.open(spare.name, LOOK, dir_fd=spare.place)
        except OSError:
            return None
        with open(fd, "rb") as file:
            found = os.fstat(file.fileno())
            return file.read(most) if stat.S_ISREG(found.st_mode) and found.st_size <= most else None

    def close(self) -> None:
        """Close all descriptors; remove unused files and empty folders created here."""
        for spare in self.spares.values():
            if spare.half:
                with suppress(OSError):
                    os.unlink(spare.half, dir_fd=spare.place)
        for place, part in reversed(self.created):
            with suppress(OSError):  # it is not empty
                os.rmdir(part, dir_fd=place)
        for fd in (*self.fds, *(spare.fd for spare in self.spares.values())):
            os.close(fd)
        self.fds, self.created, self.spares = [], [], {}

    def enter(self, place: int, parts: Iterable[str]) -> int:
        """Open nested folders without following links; create missing ones."""
        for part in parts:
            try:
                inner = os.open(part, FOLDER, dir_fd=place)
            except FileNotFoundError:
                with _acting_as_owner(place), suppress(FileExistsError):
                    os.mkdir(part, dir_fd=place)
                    self.created.append((place, part))
                inner = os.open(part, FOLDER, dir_fd=place)
            place = self.keep_open(inner)
        return place

    def keep_open(self, fd: int) -> int:
        self.fds.append(fd)
        return fd

    def make_spare(self, place: int, name: str) -> PendingFile:
        """Create an unnamed file, or a hidden temporary one if the file system does not support `O_TMPFILE`."""
        with _acting_as_owner(place):
            try:
                return PendingFile(
                    os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _MODE, dir_fd=place), place, name, ""
                )
            except OSError as e:
                if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                    raise
            half = f".{secrets.token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return PendingFile(os.open(half, flags, _MODE, dir_fd=place), place, name, half)

    def name_first(self, spare: PendingFile) -> None:
        if spare.half:
            os.rename(spare.half, spare.name, src_dir_fd=spare.place, dst_dir_fd=spare.place)
        else:
            os.link(f"/proc/self/fd/{spare.fd}", spare.name, dst_dir_fd=spare.place)

    def name_instead(self, spare: PendingFile) -> None:
        """Replace a file atomically: readers see the old content or the new."""
        half = spare.half or f".{secrets.token_hex(8)}"
        if not spare.half:
            os.link(f"/proc/self/fd/{spare.fd}", half, dst_dir_fd=spare.place)
        try:
            os.rename(half, spare.name, src_dir_fd=spare.place, dst_dir_fd=spare.place)
        except OSError:
            with suppress(OSError):
                os.unlink(half, dir_fd=spare.place)
            raise


KEPT = "; the file is in the drive, get it with `hotdesk drive get`"


def _digest_at(place: int, name: str) -> str | None:
    """Return the SHA-256 of a file, `None` if it does not exist, or `""` if it is not a regular file."""
    try:
        fd = os.open(name, LOOK, dir_fd=place)
    except FileNotFoundError:
        return None
    except OSError as e:
        if e.errno in (errno.ELOOP, errno.ENXIO):
            return ""
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        digest = hashlib.sha256()
        while data := os.read(fd, CHUNK):
            digest.update(data)
        return digest.hexdigest()
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextmanager
def _acting_as_owner(place: int) -> Iterator[None]:
    """Act as a folder's owner if root: in the `sudo` caller's group if they own it, else in the folder's."""
    if os.geteuid() != 0:
        yield
        return
    found, behind, groups = os.fstat(place), find_invoker(), os.getgroups()
    uid, gid = behind if behind and behind[0] == found.st_uid else (found.st_uid, found.st_gid)
    if uid == 0:
        yield
        return
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


@contextmanager
def _explain_errors(path: Path, more: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as e:
        link = e.errno in (errno.ELOOP, errno.ENOTDIR)
        why = "part of the path is a link or a file; name the folder itself" if link else e.strerror
        raise BriefError(f"{_format_path(path)} cannot be written: {why}{more}") from e


def _format_path(path: Path) -> str:
    return make_printable(str(path))
