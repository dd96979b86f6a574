"""File operations of the guest for its host: simple ones, and long ones that run in steps."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Ask = dict[str, Any]
    Steps = Iterator[tuple[int, bytes]]

import errno
import posix
from _stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

from hotdesk_guest.process import HOME
from hotdesk_guest.wire import CHUNK, DATA, EVENT, encode

MAX_NUMBER = 10**18
BATCH = 8192
"""Bytes of a listing sent at a time."""
FOLDER = posix.O_RDONLY | posix.O_DIRECTORY | posix.O_NOFOLLOW | posix.O_CLOEXEC
NOTHING = (0, b"")
"""A step without output, which lets other channels be served."""

REASONS = {
    errno.ENOENT: "missing",
    errno.EEXIST: "exists",
    errno.EACCES: "denied",
    errno.EPERM: "denied",
    errno.EROFS: "denied",
    errno.EISDIR: "directory",
    errno.ENOTDIR: "not-directory",
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.ENOTEMPTY: "not-empty",
    errno.EINVAL: "invalid",
    errno.ENAMETOOLONG: "invalid",
    errno.ELOOP: "invalid",
    errno.ENXIO: "invalid",
}


def reason(error: OSError) -> str:
    return REASONS.get(error.errno or 0, "other")


def resolve(path: str) -> str:
    """Return an absolute path; relative ones and `~` refer to the home folder."""
    if path == "~" or path.startswith("~/"):
        path = HOME + path[1:]
    if "\0" in path:
        raise OSError(errno.EINVAL, "the path has a NUL byte")
    parts: list[str] = []
    for part in (path if path.startswith("/") else "%s/%s" % (HOME, path)).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _get_parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def make_folders(path: str) -> bool:
    """Create a folder and its parents; return whether it was missing."""
    missing: list[str] = []
    while True:
        try:
            posix.mkdir(path, 0o755)
        except FileNotFoundError:
            missing.append(path)
            path = _get_parent(path)
            continue
        except FileExistsError:
            if not S_ISDIR(posix.stat(path).st_mode):
                raise OSError(errno.ENOTDIR, posix.strerror(errno.ENOTDIR)) from None
            if not missing:
                return False
        break
    for each in reversed(missing):
        try:
            posix.mkdir(each, 0o755)
        except FileExistsError:
            pass  # another process created it meanwhile
    return True


class Sink:
    """A file that is being written in place."""

    def __init__(self, path: str, mode: int | None) -> None:
        path = resolve(path)
        make_folders(_get_parent(path))
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NONBLOCK | posix.O_CLOEXEC
        self.fd = posix.open(path, flags, 0o644 if mode is None else mode)
        if mode is not None:
            posix.fchmod(self.fd, mode)

    def write(self, data: bytes) -> None:
        while data:
            data = data[posix.write(self.fd, data) :]

    def finish(self) -> None:
        """Close the file; some file systems report only now that they are full."""
        fd, self.fd = self.fd, -1
        posix.close(fd)

    def close(self) -> None:
        if self.fd >= 0:
            posix.close(self.fd)
            self.fd = -1


def read(ask: Ask) -> Steps:
    path = resolve(ask["path"])
    fd = posix.open(path, posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    try:
        if S_ISDIR(posix.fstat(fd).st_mode):
            raise OSError(errno.EISDIR, posix.strerror(errno.EISDIR))
        if not S_ISREG(posix.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        while True:
            data = posix.read(fd, CHUNK)
            if not data:
                return
            yield DATA, b"\0" + data
    finally:
        posix.close(fd)


def describe_entry(path: str, name: str, info: posix.stat_result) -> dict[str, object]:
    mode = info.st_mode
    kind = "file" if S_ISREG(mode) else "directory" if S_ISDIR(mode) else "symlink" if S_ISLNK(mode) else "other"
    return {
        "name": name,
        "path": path,
        "kind": kind,
        "size": min(info.st_size, MAX_NUMBER),
        "mode": S_IMODE(mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "modified": max(-MAX_NUMBER, min(info.st_mtime_ns // 1000, MAX_NUMBER)),
        "target": posix.readlink(path) if kind == "symlink" else None,
    }


def list_folder(ask: Ask) -> Steps:
    """List a folder in steps, depth first, sorted by name."""
    top = resolve(ask["path"])
    waiting = [(top, name, ask["depth"]) for name in sorted(posix.listdir(top), reverse=True)]
    batch: list[dict[str, object]] = []
    size = 0
    while waiting:
        folder, name, depth = waiting.pop()
        path = "%s/%s" % (folder.rstrip("/"), name)
        try:
            info = posix.lstat(path)
            batch.append(describe_entry(path, name, info))
            size += len(encode(batch[-1]))
            if depth > 1 and S_ISDIR(info.st_mode):
                waiting += [(path, each, depth - 1) for each in sorted(posix.listdir(path), reverse=True)]
        except OSError:
            continue  # it was removed, or permission is denied
        if size >= BATCH:
            yield EVENT, encode(batch)
            batch, size = [], 0
    if batch:
        yield EVENT, encode(batch)


def remove(ask: Ask) -> Steps:
    """Remove a path in steps. Symbolic links are removed, not followed."""
    top = resolve(ask["path"])
    try:
        info = posix.lstat(top)
    except FileNotFoundError:
        return
    if not S_ISDIR(info.st_mode):
        posix.unlink(top)
        return
    # by descriptor, one open at a time, because a tree can be deeper than the longest path
    fd = posix.open(top, FOLDER)
    above: list[list[str]] = []
    try:
        folders = _empty(fd)
        while folders or above:
            if folders:
                fd = _change(fd, folders[-1])
                above.append(folders)
                folders = _empty(fd)
            else:
                fd = _change(fd, "..")
                folders = above.pop()
                posix.rmdir(folders.pop(), dir_fd=fd)
            yield NOTHING
    finally:
        posix.close(fd)
    posix.rmdir(top)


def _empty(fd: int) -> list[str]:
    """Unlink all entries except folders; return the names of the folders."""
    below = []
    with posix.scandir(fd) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                below.append(each.name)
            else:
                posix.unlink(each.name, dir_fd=fd)
    return below


def _change(fd: int, name: str) -> int:
    """Open a folder relative to an open one, and close that one."""
    there = posix.open(name, FOLDER, dir_fd=fd)
    posix.close(fd)
    return there


def describe(ask: Ask) -> dict[str, object]:
    path = resolve(ask["path"])
    return {"entry": describe_entry(path, path.rpartition("/")[2], posix.lstat(path))}


def make_folder(ask: Ask) -> dict[str, object]:
    return {"made": make_folders(resolve(ask["path"]))}


def move(ask: Ask) -> dict[str, object]:
    source, destination = resolve(ask["source"]), resolve(ask["destination"])
    posix.lstat(source)
    make_folders(_get_parent(destination))
    posix.rename(source, destination)
    return {}


def write_out(_ask: Ask) -> dict[str, object]:
    posix.sync()
    return {}


STEPPED = {"read": read, "list": list_folder, "remove": remove}
SIMPLE = {"stat": describe, "mkdir": make_folder, "move": move, "sync": write_out}
