"""Files, as the guest handles them for its host: simple acts, and long ones taken in steps."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs a desk 5 ms
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Ask = dict[str, Any]
    Steps = Iterator[tuple[int, bytes]]

import errno
import os
import stat

from hotdesk_guest.wire import CHUNK, DATA, EVENT, encode

MOST = 10**18
BATCH = 8192
"""Bytes of a listing sent together."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NOTHING = (0, b"")
"""A step that says nothing: it only lets others have their turn."""

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
    """Give the word for an error."""
    return REASONS.get(error.errno or 0, "other")


def resolve(path: str) -> str:
    """Give a path from the root; relative ones and `~` mean the home folder."""
    home = os.environ.get("HOME", "/")
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    if "\0" in path:
        raise OSError(errno.EINVAL, "a name with a zero byte")
    return os.path.normpath(os.path.join(home, path))


def make_parents(path: str) -> None:
    """Make the folders above a path."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    except FileExistsError:
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


class Sink:
    """A file being written in place."""

    def __init__(self, path: str, mode: int | None) -> None:
        path = resolve(path)
        make_parents(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        self.fd = os.open(path, flags, 0o644 if mode is None else mode)
        if mode is not None:
            os.fchmod(self.fd, mode)

    def write(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(self.fd, data) :]

    def finish(self) -> None:
        """Close it; a file system may tell only now that it is full."""
        fd, self.fd = self.fd, -1
        os.close(fd)

    def close(self) -> None:
        """Close it, whatever happened."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read(ask: Ask) -> Steps:
    """Step through a file's bytes."""
    path = resolve(ask["path"])
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        while True:
            data = os.read(fd, CHUNK)
            if not data:
                return
            yield DATA, b"\0" + data
    finally:
        os.close(fd)


def entry(path: str, name: str, info: os.stat_result) -> dict[str, object]:
    """Describe one path."""
    mode = info.st_mode
    kind = (
        "file"
        if stat.S_ISREG(mode)
        else "directory"
        if stat.S_ISDIR(mode)
        else "symlink"
        if stat.S_ISLNK(mode)
        else "other"
    )
    return {
        "name": name,
        "path": path,
        "kind": kind,
        "size": min(info.st_size, MOST),
        "mode": stat.S_IMODE(mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "modified": max(-MOST, min(info.st_mtime_ns // 1000, MOST)),
        "target": os.readlink(path) if kind == "symlink" else None,
    }


def list_folder(ask: Ask) -> Steps:
    """Step through a folder, depth first, sorted by name."""
    top = resolve(ask["path"])
    waiting = [(top, name, ask["depth"]) for name in sorted(os.listdir(top), reverse=True)]
    batch: list[dict[str, object]] = []
    size = 0
    while waiting:
        folder, name, depth = waiting.pop()
        path = os.path.join(folder, name)
        try:
            info = os.lstat(path)
            batch.append(entry(path, name, info))
            size += len(encode(batch[-1]))
            if depth > 1 and stat.S_ISDIR(info.st_mode):
                waiting += [(path, each, depth - 1) for each in sorted(os.listdir(path), reverse=True)]
        except OSError:
            continue  # it went, or is closed to us
        if size >= BATCH:
            yield EVENT, encode(batch)
            batch, size = [], 0
    if batch:
        yield EVENT, encode(batch)


def remove(ask: Ask) -> Steps:
    """Step through a removal; symbolic links are removed, never followed."""
    top = resolve(ask["path"])
    try:
        info = os.lstat(top)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(top)
        return
    # by descriptor, one open at a time: a tree may be deeper than a path is long
    fd = os.open(top, FOLDER)
    above: list[list[str]] = []
    try:
        left = _empty(fd)
        while left or above:
            if left:
                fd = _change(fd, left[-1])
                above.append(left)
                left = _empty(fd)
            else:
                fd = _change(fd, "..")
                left = above.pop()
                os.rmdir(left.pop(), dir_fd=fd)
            yield NOTHING
    finally:
        os.close(fd)
    os.rmdir(top)


def _empty(fd: int) -> list[str]:
    """Unlink what is no folder; give the names of the folders that are left."""
    below = []
    with os.scandir(fd) as entries:
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                below.append(each.name)
            else:
                os.unlink(each.name, dir_fd=fd)
    return below


def _change(fd: int, name: str) -> int:
    """Go to a folder beside an open one, which is closed."""
    there = os.open(name, FOLDER, dir_fd=fd)
    os.close(fd)
    return there


def describe(ask: Ask) -> dict[str, object]:
    """Describe one path, a link itself."""
    path = resolve(ask["path"])
    return {"entry": entry(path, os.path.basename(path), os.lstat(path))}


def make_folder(ask: Ask) -> dict[str, object]:
    """Make a folder with its parents."""
    path = resolve(ask["path"])
    try:
        os.makedirs(path, mode=0o755)
    except FileExistsError:
        if not os.path.isdir(path):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        return {"made": False}
    return {"made": True}


def move(ask: Ask) -> dict[str, object]:
    """Rename, making the destination's folders."""
    source, destination = resolve(ask["source"]), resolve(ask["destination"])
    os.lstat(source)
    make_parents(destination)
    os.rename(source, destination)
    return {}


STEPPED = {"read": read, "list": list_folder, "remove": remove}
SIMPLE = {"stat": describe, "mkdir": make_folder, "move": move}
