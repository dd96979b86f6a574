"""The files of a volume, for the content API. No link is followed: every name in a volume may come from a desk.

Paths are resolved by openat2 below one directory, without links and without crossing a mount. A file is written in a
staging area and renamed into place when it is complete, so that no reader sees a part of it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from queue import SimpleQueue

from hotdesk.dataclass import dataclass
from hotdesk.desk.volume.trash import DIRECTORY, discard, make_trash_name
from hotdesk.linux import uids
from hotdesk.linux.openat2 import STRICT, openat2

MAX_PATH_BYTES = 4000
MAX_ENTRIES = 100_000
"""Maximum entries of one listing."""
MAX_LISTING_BYTES = 32 << 20
MAX_DEPTH = 64
MAX_MODE = 0o1777
"""Permission bits that may be set: no setuid or setgid."""
PIECE = 256 << 10
_ABANDONED_AFTER_S = 86400.0
"""Seconds after which an unfinished upload is removed."""
_DELETE_LIMIT_S = 30.0
"""Seconds for which a request deletes a directory; the rest is deleted after it."""
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY

_STATUS = {
    errno.ENOENT: (404, "the path does not exist in the volume"),
    errno.ENOTDIR: (404, "part of the path is not a directory"),
    errno.ELOOP: (400, "part of the path is a symbolic link, which the content API does not follow"),
    errno.EXDEV: (400, "the path leads out of the volume"),
    errno.ENAMETOOLONG: (400, "a name in the path is too long"),
    errno.ENOSPC: (507, "the volume is full; remove some files, or use a larger volume"),
    errno.EDQUOT: (507, "the volume is full; remove some files, or use a larger volume"),
    errno.ENXIO: (400, "the path is neither a file nor a directory"),
    errno.EISDIR: (400, "the path is a directory"),
    errno.EEXIST: (409, "the path exists"),
    errno.ENOTEMPTY: (409, "the directory was written to while it was removed; try again"),
    errno.EROFS: (500, "the volume is read-only: its file system has an error"),
}


class FilesError(Exception):
    """A request that cannot be carried out, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Attributes:
    """Owner and mode of a file or directory to write; `None` keeps the current value, or means the default."""

    uid: int | None = None
    gid: int | None = None
    mode: int | None = None

    def __post_init__(self) -> None:
        for number in (self.uid, self.gid):
            if number is not None and not (0 <= number <= uids.LAST_USER or number == 65534):
                raise FilesError(400, f"uid and gid must be 0 to {uids.LAST_USER}, or 65534: a sandbox has no others")
        if self.mode is not None and not 0 <= self.mode <= MAX_MODE:
            raise FilesError(400, f"mode must be 0 to {MAX_MODE:#o}: permission bits and the sticky bit")

    def apply(self, fd: int, usual: tuple[int, int, int]) -> None:
        uid, gid, mode = usual
        os.fchown(fd, uid if self.uid is None else self.uid, gid if self.gid is None else self.gid)
        os.fchmod(fd, mode if self.mode is None else self.mode)


class Upload:
    """A file that is being written, in the staging area until it is complete."""

    def __init__(
        self, files: VolumeFiles, path: str, attributes: Attributes, *, overwrite: bool, parents: bool
    ) -> None:
        self.files = files
        self.parts = _split(path)
        self.attributes = attributes
        self.overwrite = overwrite
        if not self.parts:
            raise FilesError(400, "the path is a directory")
        self.folder = files.make_folders(self.parts[:-1]) if parents else files.open_folder(self.parts[:-1])
        self.name = f"{os.urandom(12).hex()}.upload".encode()
        self.fd = -1
        try:
            self.check_target()
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self.fd = os.open(self.name, flags, 0o600, dir_fd=files.staging)
        except BaseException:
            os.close(self.folder)
            raise

    def check_target(self) -> os.stat_result | None:
        """Refuse a path at which no file can be written; return the status of an existing file."""
        try:
            there = os.stat(self.parts[-1], dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(there.st_mode):
            raise FilesError(400, "the path is a directory")
        if not self.overwrite:
            raise FilesError(409, "the file exists; write with force to replace it")
        return there

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def finish(self) -> dict[str, object]:
        """Move the file into place atomically. A replaced file's owner and mode are kept unless others are given."""
        there = self.check_target()
        usual = (uids.USER, uids.USER, 0o644)
        if there is not None and stat.S_ISREG(there.st_mode):
            usual = (there.st_uid, there.st_gid, there.st_mode & MAX_MODE)
        self.attributes.apply(self.fd, usual)
        os.rename(self.name, self.parts[-1], src_dir_fd=self.files.staging, dst_dir_fd=self.folder)
        return _describe_entry(self.parts, os.fstat(self.fd))

    def close(self) -> None:
        """Close the upload; delete a file that was not moved into place."""
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.files.staging)
        os.close(self.fd)
        os.close(self.folder)


def compute_part(size: int, first: int | None, last: int | None) -> tuple[int, int]:
    """Return the start and end of an HTTP range of a file; without `first` it is the last bytes."""
    begin = max(0, size - (last or 0)) if first is None else first
    end = size if first is None or last is None else min(size, last + 1)
    if not 0 <= begin < end:
        raise FilesError(416, f"the range is outside of the file, which has {size} bytes")
    return begin, end


class VolumeFiles:
    """A volume: the directory that desks see, and the staging area beside it."""

    def __init__(self, root: int, staging: int) -> None:
        self.root = root
        self.staging = staging
        self.delete_limit_s = _DELETE_LIMIT_S
        self.leftovers: SimpleQueue[bytes] = SimpleQueue()
        """Directories in the staging area that no request is deleting."""

    # -- reading ------------------------------------------------------------------------------------------------

    def stat(self, path: str) -> dict[str, object]:
        """Describe the entry at a path. A link is described, not followed."""
        parts = _split(path)
        if not parts:
            return _describe_entry(parts, os.fstat(self.root))
        with self.hold_folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            return _describe_entry(parts, found, _read_target(folder, parts[-1], found))

    def ls(self, path: str, depth: int = 1, limit: int = MAX_ENTRIES) -> bytearray:
        """Return the entries below a directory as JSON; a desk may have made any number of them, with any names."""
        if not 1 <= depth <= MAX_DEPTH:
            raise FilesError(400, f"depth must be 1 to {MAX_DEPTH}")
        parts = _split(path)
        listing = bytearray(b"[")
        with self.hold_folder(parts) as folder:
            for entry in _walk(folder, parts, depth, NameReader(limit)):
                listing += b"," if len(listing) > 1 else b""
                listing += json.dumps(entry, separators=(",", ":")).encode()
                if len(listing) > MAX_LISTING_BYTES:
                    raise FilesError(
                        400,
                        f"the list has more than {MAX_LISTING_BYTES >> 20} MiB; list a smaller folder, or fewer levels",
                    )
        listing += b"]"
        return listing

    def open_file(self, path: str) -> tuple[int, int]:
        """Open a regular file for reading; return its descriptor and size."""
        parts = _split(path)
        if not parts:
            raise FilesError(400, "the path is a directory")
        fd = openat2(self.root, b"/".join(parts), _PLAIN, STRICT)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            return fd, found.st_size
        os.close(fd)
        kind = "a directory" if stat.S_ISDIR(found.st_mode) else "neither a file nor a directory"
        raise FilesError(400, f"the path is {kind}")

    # -- changing -----------------------------------------------------------------------------------------------

    def make_dir(self, path: str, attributes: Attributes, *, parents: bool) -> dict[str, object]:
        """Create a directory. With `parents`, also create those above it, and accept an existing one."""
        parts = _split(path)
        if not parts:
            raise FilesError(409, "the path exists")
        folder = self.make_folders(parts[:-1]) if parents else self.open_folder(parts[:-1])
        try:
            fresh = _make_one(folder, parts[-1])
            if not fresh and not parents:
                raise FilesError(409, "the path exists")
            fd = openat2(folder, parts[-1], DIRECTORY, STRICT)
        finally:
            os.close(folder)
        try:
            if fresh:
                attributes.apply(fd, (uids.USER, uids.USER, 0o755))
            return _describe_entry(parts, os.fstat(fd))
        finally:
            os.close(fd)

    def change(self, path: str, attributes: Attributes) -> dict[str, object]:
        parts = _split(path)
        fd = openat2(self.root, b"/".join(parts), _PLAIN, STRICT)
        try:
            there = os.fstat(fd)
            if not (stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode)):
                raise FilesError(400, "the path is neither a file nor a directory")
            attributes.apply(fd, (there.st_uid, there.st_gid, there.st_mode & MAX_MODE))
            return _describe_entry(parts, os.fstat(fd))
        finally:
            os.close(fd)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with everything below it.

        A directory is moved to the staging area atomically and deleted there.
        """
        parts = _split(path)
        if not parts:
            raise FilesError(400, "the root of a volume cannot be removed; delete the volume instead")
        with self.hold_folder(parts[:-1]) as folder:
            found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(parts[-1], dir_fd=folder)
                return
            name = make_trash_name()
            os.rename(parts[-1], name, src_dir_fd=folder, dst_dir_fd=self.staging)
        self.discard(name)

    def discard(self, name: bytes) -> None:
        """Delete a directory in the staging area; what is left when the time limit is reached is for the sweep."""
        for remaining in discard(self.staging, name, self.delete_limit_s):
            self.leftovers.put(remaining)

    def find_leftovers(self) -> None:
        """Find what killed processes left behind in the staging area, before any request is carried out."""
        with os.scandir(self.staging) as entries:
            names = [os.fsencode(entry.name) for entry in islice(entries, MAX_ENTRIES)]
        for name in names:
            with suppress(OSError):
                found = os.stat(name, dir_fd=self.staging, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    self.leftovers.put(name)
                elif time.time() - found.st_mtime > _ABANDONED_AFTER_S:
                    os.unlink(name, dir_fd=self.staging)

    def sweep(self, name: bytes) -> None:
        """Delete a leftover directory."""
        with suppress(OSError):
            self.discard(name)

    # -- directories --------------------------------------------------------------------------------------------

    def open_folder(self, parts: list[bytes]) -> int:
        return openat2(self.root, b"/".join(parts), DIRECTORY, STRICT)

    @contextmanager
    def hold_folder(self, parts: list[bytes]) -> Iterator[int]:
        fd = self.open_folder(parts)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_folders(self, parts: list[bytes]) -> int:
        fd = self.open_folder([])
        for part in parts:
            try:
                fresh = _make_one(fd, part)
                inner = openat2(fd, part, DIRECTORY, STRICT)
                if fresh:
                    Attributes().apply(inner, (uids.USER, uids.USER, 0o755))
            finally:
                os.close(fd)
            fd = inner
        return fd


def explain(error: OSError) -> FilesError:
    status, message = _STATUS.get(error.errno or 0, (500, f"the volume could not do this: {error.strerror}"))
    return FilesError(status, message)


def _split(path: str) -> list[bytes]:
    """Split a path into its components; `/` is the volume itself."""
    try:
        data = path.encode()
    except UnicodeEncodeError:
        raise FilesError(400, "the path is not UTF-8") from None
    if len(data) > MAX_PATH_BYTES or b"\0" in data:
        raise FilesError(400, f"a path must have at most {MAX_PATH_BYTES} bytes and no NUL byte")
    parts = [part for part in data.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise FilesError(400, "a path must not contain `..`")
    return parts


class NameReader:
    """Reads the names in directories, up to a limit for all of them together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.remaining = limit

    def read(self, folder: int) -> list[bytes]:
        with os.scandir(folder) as entries:
            names = [os.fsencode(entry.name) for entry in islice(entries, self.remaining + 1)]
        self.remaining -= len(names)
        if self.remaining < 0:
            raise FilesError(400, f"there are more than {self.limit} entries; list a smaller folder, or fewer levels")
        return sorted(names)


def _walk(folder: int, parts: list[bytes], depth: int, reader: NameReader) -> Iterator[dict[str, object]]:
    """Describe the entries below an open directory, with one open descriptor per level."""
    for name in reader.read(folder):
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            target = _read_target(folder, name, found)
            inner = -1
            if depth > 1 and stat.S_ISDIR(found.st_mode):
                inner = os.open(name, DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue  # removed or replaced meanwhile
        yield _describe_entry([*parts, name], found, target)
        if inner >= 0:
            try:
                yield from _walk(inner, [*parts, name], depth - 1, reader)
            finally:
                os.close(inner)


def _make_one(folder: int, name: bytes) -> bool:
    """Create a directory; return False if the name exists."""
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _read_target(folder: int, name: bytes, found: os.stat_result) -> str | None:
    return _show(os.readlink(name, dir_fd=folder)) if stat.S_ISLNK(found.st_mode) else None


def _describe_entry(parts: list[bytes], found: os.stat_result, target: str | None = None) -> dict[str, object]:
    """Describe a file, directory, link or other entry in the format of E2B's clients."""
    kinds = ((stat.S_ISDIR, "directory"), (stat.S_ISREG, "file"), (stat.S_ISLNK, "symlink"))
    entry: dict[str, object] = {
        "name": _show(parts[-1]) if parts else "",
        "type": next((name for is_kind, name in kinds if is_kind(found.st_mode)), "unknown"),
        "path": "/" + "/".join(map(_show, parts)),
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "atime": _format_time(found.st_atime),
        "mtime": _format_time(found.st_mtime),
        "ctime": _format_time(found.st_ctime),
    }
    return entry if target is None else {**entry, "target": target}


def _show(name: bytes) -> str:
    """Return a name as text; bytes that are not UTF-8 become escapes."""
    return name.decode("utf-8", "backslashreplace")


def _format_time(seconds: float) -> str:
    """Return a time in RFC 3339 format; the epoch for one that cannot be represented, as a desk may set any time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC).isoformat(timespec="microseconds")
