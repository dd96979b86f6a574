"""Unpack a hostile tar stream below a directory: paths resolve with openat2, sizes are counted, modes reduced."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Literal

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.copy import MAX_DEPTH, MAX_PATH
from hotdesk.errors import ImageError, make_printable
from hotdesk.linux import openat2
from hotdesk.linux.openat2 import RootDirectory

_WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
NOBODY = 65534
COPY = 1 << 20


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits for an archive."""

    entries: int = 2_000_000
    size: int = 64 << 30
    """Bytes of all files together, including holes."""
    name: int = 255
    path: int = MAX_PATH
    depth: int = MAX_DEPTH
    """Levels of the tree, where the archive's links lead deeper too."""

    @property
    def stream(self) -> int:
        """Return the maximum bytes of a tar stream within these limits."""
        return self.size + 4096 * self.entries


@dataclass(slots=True)
class ArchiveBudget:
    """How much of the limits is used, over all layers of an image."""

    limits: ArchiveLimits
    entries: int = 0
    size: int = 0

    def spend(self, size: int) -> None:
        self.entries += 1
        self.size += max(0, size)
        if self.entries > self.limits.entries:
            raise ImageError(f"the archive has more than {self.limits.entries} entries, which is the limit")
        if size < 0 or self.size > self.limits.size:
            raise ImageError(f"the archive unpacks to more than {self.limits.size} bytes, which is the limit")


def unpack(root: RootDirectory, stream: IO[bytes], budget: ArchiveBudget, layer: bool) -> None:
    """Unpack a tar stream. Whiteouts of a `layer` are skipped: `apply_whiteouts` handles them."""
    with open_tar(stream) as tar:
        for info in iterate_headers(tar):
            budget.spend(info.size if info.isreg() else 0)
            above, name = split_place(info, budget.limits)
            if name and not (layer and name.startswith(_WHITEOUT)):
                put(root, tar, info, above, name, budget)


def apply_whiteouts(root: RootDirectory, stream: IO[bytes], limits: ArchiveLimits) -> None:
    """Remove what a layer's whiteouts name. Runs before unpacking, as whiteouts may come after the layer's files."""
    budget = ArchiveBudget(limits)
    with open_tar(stream) as tar:
        for info in iterate_headers(tar):
            budget.spend(0)
            above, name = split_place(info, limits)
            if name.startswith(_WHITEOUT):
                with suppress(FileNotFoundError, NotADirectoryError):
                    erase(root, above, name)


def erase(root: RootDirectory, above: bytes, name: bytes) -> None:
    fd = root.open(above, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if name == OPAQUE:
            openat2.empty(fd, b".")
        elif not name.startswith(_WHITEOUT + _WHITEOUT) and name[len(_WHITEOUT) :] not in (b"", b".", b".."):
            openat2.remove(fd, name[len(_WHITEOUT) :])
    finally:
        os.close(fd)


def open_tar(stream: IO[bytes], mode: Literal["r|", "r:"] = "r|") -> tarfile.TarFile:
    """Open a tar for sequential reading; names keep their exact bytes."""
    return tarfile.open(fileobj=stream, mode=mode, encoding="utf-8", errors="surrogateescape")


def iterate_headers(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the headers. Unlike tarfile's own iterator, this does not keep all of them in memory."""
    while (info := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined]
        yield info


def split_place(info: tarfile.TarInfo, limits: ArchiveLimits) -> tuple[bytes, bytes]:
    """Return an entry's folder and name; the root itself has an empty name."""
    parts = _split_name(info.name, limits)
    return b"/".join(parts[:-1]), parts[-1] if parts else b""


def _split_name(text: str, limits: ArchiveLimits) -> list[bytes]:
    parts = check_path(text, limits)
    if b".." in parts:
        raise ImageError(
            f"the archive's entry {make_printable(text[:80])!r} has a path with `..`, which is not allowed"
        )
    return parts


def check_path(text: str, limits: ArchiveLimits) -> list[bytes]:
    """Return the components of an entry's path; raise `ImageError` if it is beyond the limits."""
    path = text.encode("utf-8", "surrogateescape")
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b"\0" in path or len(path) > limits.path or len(parts) > limits.depth:
        raise _make_path_error(text, limits)
    if any(len(part) > limits.name for part in parts):
        raise ImageError(
            f"the archive's entry {make_printable(text[:80])!r} has a name of more than {limits.name} bytes, "
            "which is the limit"
        )
    return parts


def _make_path_error(text: str, limits: ArchiveLimits) -> ImageError:
    return ImageError(
        f"the archive's entry {make_printable(text[:80])!r} has an invalid path: at most {limits.path} bytes in "
        f"{limits.depth} levels, without a NUL byte, are allowed"
    )


@contextmanager
def open_folder(root: RootDirectory, path: bytes, budget: ArchiveBudget) -> Iterator[int]:
    """Open the directory of an entry; create missing ones, which count as entries."""
    fd, missing = _open_deepest(root, path)
    try:
        level = _measure_depth(root, fd, budget.limits)
        if level + len(missing) >= budget.limits.depth:
            raise _make_path_error(os.fsdecode(path), budget.limits)
        for name in missing:
            budget.spend(0)
            os.mkdir(name, 0o755, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _open_deepest(root: RootDirectory, path: bytes) -> tuple[int, list[bytes]]:
    """Open the deepest directory of a path that exists; return it with the names that are missing below."""
    missing: list[bytes] = []
    while True:
        try:
            return root.open(path, os.O_RDONLY | os.O_DIRECTORY), missing[::-1]
        except FileNotFoundError:
            if not path:
                raise
            path, _, name = path.rpartition(b"/")
            missing.append(name)


def _measure_depth(root: RootDirectory, fd: int, limits: ArchiveLimits) -> int:
    """Return how deep an open directory really is: links in an entry's path lead deeper than its name tells."""
    try:
        here, top = (os.readlink(f"/proc/self/fd/{each}") for each in (fd, root.fd))
    except OSError as e:
        if e.errno == errno.ENAMETOOLONG:
            return limits.depth
        raise
    return here.count("/") - top.count("/")


def put(
    root: RootDirectory, tar: tarfile.TarFile, info: tarfile.TarInfo, above: bytes, name: bytes, budget: ArchiveBudget
) -> None:
    """Unpack one entry. Devices, pipes and unknown types are skipped."""
    if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
        return
    with open_folder(root, above, budget) as fd:
        if info.isdir():
            _put_folder(info, fd, name)
        elif info.isreg():
            put_file(tar, info, fd, name)
        elif info.issym():
            openat2.remove(fd, name)
            os.symlink(info.linkname.encode("utf-8", "surrogateescape"), name, dir_fd=fd)
            os.chown(name, clamp_owner(info.uid), clamp_owner(info.gid), dir_fd=fd, follow_symlinks=False)
        else:
            _put_link(root, b"/".join(_split_name(info.linkname, budget.limits)), fd, name)


def _put_folder(info: tarfile.TarInfo, fd: int, name: bytes) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=fd)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode):
            openat2.remove(fd, name)
            os.mkdir(name, 0o700, dir_fd=fd)
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        set_attributes(info, inner)
    finally:
        os.close(inner)


def put_file(tar: tarfile.TarFile, info: tarfile.TarInfo, fd: int, name: bytes) -> None:
    source = tar.extractfile(info)
    if source is None:
        return
    with source, openat2.create(fd, name) as file:
        shutil.copyfileobj(source, file, COPY)
        file.flush()
        set_attributes(info, file.fileno())


def _put_link(root: RootDirectory, target: bytes, fd: int, name: bytes) -> None:
    source = root.open(target, os.O_PATH | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(source).st_mode) and not stat.S_ISLNK(os.fstat(source).st_mode):
            shown = make_printable(os.fsdecode(target[:80]))
            raise ImageError(f"the archive has a hard link to {shown!r}, which is not a file in the archive")
        openat2.link(source, fd, name)
    finally:
        os.close(source)


def set_attributes(info: tarfile.TarInfo, fd: int) -> None:
    """Set the owner, time, and mode (without setuid and setgid) of an open file."""
    os.fchown(fd, clamp_owner(info.uid), clamp_owner(info.gid))
    os.fchmod(fd, info.mode & 0o1777)
    when = int(info.mtime) if 0 <= info.mtime < 1 << 33 else 0
    os.utime(fd, (when, when))


def clamp_owner(number: int) -> int:
    """Return the id if it is in a desk's range of user ids, else the id of `nobody`."""
    return number if 0 <= number < 1 << 16 else NOBODY
