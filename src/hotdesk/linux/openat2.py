"""Safe file access below a directory: openat2 resolves every name as if that directory were `/`."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

_OPENAT2 = 437
"""The system call's number, the same on every architecture."""
RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10
STRICT = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV

libc = ctypes.CDLL(None, use_errno=True)


class OpenHow(ctypes.Structure):
    """The kernel's `struct open_how`."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class RootDirectory:
    """A directory that is treated as the root: `..` and absolute links cannot leave it."""

    def __init__(self, path: str | os.PathLike[str] | int) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.fd = os.dup(path) if isinstance(path, int) else os.open(path, flags)

    def __enter__(self) -> RootDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)

    def open(self, path: bytes, flags: int, mode: int = 0) -> int:
        """Open a path inside, following links inside; raise `OSError` like `open`."""
        return openat2(self.fd, path, flags, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS, mode)

    @contextmanager
    def folder(self, path: bytes) -> Iterator[int]:
        """Open a directory; create it with its parents (mode 0755) if it is missing."""
        fd = self._make(path)
        try:
            yield fd
        finally:
            os.close(fd)

    def _make(self, path: bytes) -> int:
        try:
            return self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            above, _, name = path.strip(b"/").rpartition(b"/")
            if not name:
                raise
            with self.folder(above) as fd:
                os.mkdir(name, 0o755, dir_fd=fd)
            return self.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def read(self, path: bytes, limit: int = 1 << 20) -> bytes:
        """Return the beginning of a regular file; empty for any other kind of file."""
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(fd, limit) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)

    def write(self, path: bytes, data: bytes, mode: int = 0o644) -> None:
        """Write a regular file, replacing what has its name."""
        above, _, name = path.rpartition(b"/")
        with self.folder(above) as fd:
            write_file(fd, name, data, mode)


def openat2(fd: int, path: bytes, flags: int, resolve: int, mode: int = 0) -> int:
    """Open a path below a directory, within what `resolve` allows; raise `OSError` like `open`."""
    how = OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    opened = int(libc.syscall(_OPENAT2, fd, path or b".", ctypes.byref(how), ctypes.sizeof(how)))
    if opened < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), os.fsdecode(path))
    return opened


def open_strictly(fd: int, path: bytes, flags: int) -> int:
    """Open a path below a directory in the same mount, without following links and without blocking."""
    patient = 0 if flags & os.O_PATH else os.O_NONBLOCK  # openat2 refuses O_NONBLOCK with O_PATH, which opens nothing
    return openat2(fd, path, flags | os.O_NOFOLLOW | patient, STRICT)


def write_file(fd: int, name: bytes, data: bytes, mode: int) -> None:
    """Write a regular file in a directory, replacing what has its name."""
    with create(fd, name) as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)


def create(fd: int, name: bytes) -> BinaryIO:
    """Create a regular file in a directory, replacing what has its name."""
    remove(fd, name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(name, flags, 0o600, dir_fd=fd), "wb")


def remove(fd: int, name: bytes) -> None:
    """Remove a name in a directory with everything below it, without following links. A missing one is no error."""
    try:
        os.unlink(name, dir_fd=fd)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        empty(fd, name)
        os.rmdir(name, dir_fd=fd)


def empty(fd: int, name: bytes) -> None:
    """Remove everything in a directory without following links; one descriptor is open per level."""
    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        for entry in os.listdir(inner):
            remove(inner, os.fsencode(entry))
    finally:
        os.close(inner)


def link(source: int, fd: int, name: bytes) -> None:
    """Link the file open as `source` into a directory, replacing what has the name."""
    with suppress(FileNotFoundError):
        if os.path.samestat(os.lstat(name, dir_fd=fd), os.fstat(source)):
            return
    remove(fd, name)
    os.link(f"/proc/self/fd/{source}", name, dst_dir_fd=fd, follow_symlinks=True)
