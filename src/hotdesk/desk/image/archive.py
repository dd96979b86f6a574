"""Read the files inside an image archive as streams: by name, uncompressed, never longer than the limit."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib
import io
import lzma
import os
import re
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable
from typing import IO, Literal

from hotdesk.desk.image.manifests import INDEX
from hotdesk.desk.image.untar import ArchiveLimits, iterate_headers, open_tar
from hotdesk.errors import ImageError, make_printable
from hotdesk.linux.openat2 import RootDirectory

Kind = Literal["tar", "oci", "docker"]
BUFFER = 1 << 20
_PART_LIMIT = 4096
_WRAPPING = re.compile(
    r"(|\.|blobs|blobs/sha256|blobs/sha256/[0-9a-f]{64}|manifest\.json|index\.json|oci-layout|repositories"
    r"|[0-9a-f]{64}|[0-9a-f]{64}\.(json|tar)|[0-9a-f]{64}/(layer\.tar|json|VERSION))"
)
"""Names of files in an OCI layout or a `docker save`. An archive with any other name is a root file system."""


class FileWindow(io.RawIOBase):
    """A range of an open file as a stream with a position of its own."""

    def __init__(self, fd: int, start: int, size: int) -> None:
        self.fd, self.at, self.end = fd, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = os.pread(self.fd, min(len(buffer), self.end - self.at), self.at)
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


class Bounded(io.RawIOBase):
    """A stream that fails once it has returned more than `limit` bytes."""

    def __init__(self, inner: IO[bytes], limit: int) -> None:
        self.inner, self.limit, self.remaining = inner, limit, limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.inner.read(len(buffer))
        self.remaining -= len(data)
        if self.remaining < 0:
            raise ImageError(f"the archive unpacks to more than {self.limit} bytes, which is the limit")
        buffer[: len(data)] = data
        return len(data)


class Folder:
    """An OCI layout in a directory."""

    def __init__(self, fd: int) -> None:
        self.root = RootDirectory(fd)

    def close(self) -> None:
        os.close(self.root.fd)

    def open(self, name: str) -> io.BufferedReader:
        try:
            fd = self.root.open(name.encode(), os.O_RDONLY | os.O_NONBLOCK)
        except OSError as e:
            raise ImageError(f"the OCI layout has no file {make_printable(name[:90])}: {e.strerror}") from e
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise ImageError(f"{make_printable(name[:90])} in the OCI layout is not a regular file")
        return io.BufferedReader(io.FileIO(fd, "rb"), BUFFER)


class CopiedFolder(Folder):
    """An OCI layout in a directory that others may write: every file is copied before it is verified and read."""

    def __init__(self, fd: int, index: int, work: str, limits: ArchiveLimits) -> None:
        super().__init__(fd)
        self.work, self.limits = work, limits
        self.copied: tuple[str, int] = (INDEX, os.dup(index))
        """The name and copy of the file that was opened last; a layer is opened several times in a row."""

    def close(self) -> None:
        os.close(self.copied[1])
        super().close()

    def open(self, name: str) -> io.BufferedReader:
        if self.copied[0] != name:
            with super().open(name) as file, tempfile.TemporaryFile(dir=self.work) as copy:
                shutil.copyfileobj(Bounded(file, self.limits.stream), copy, BUFFER)
                copy.flush()
                fresh = os.dup(copy.fileno())
            os.close(self.copied[1])
            self.copied = name, fresh
        return reopen_file(self.copied[1])


class Wrapped:
    """An OCI layout or `docker save` in an uncompressed tar, read in place."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.found: dict[str, tuple[int, int]] = {}
        self.links: dict[str, str] = {}
        with reopen_file(fd) as file, open_tar(file, "r:") as tar:
            for info in iterate_headers(tar):
                self.note(info)

    def note(self, info: tarfile.TarInfo) -> None:
        name = clean(info.name)
        if len(self.found) + len(self.links) > _PART_LIMIT:
            raise ImageError(f"the OCI layout in the archive has more than {_PART_LIMIT} files, which is the limit")
        if info.issym():
            self.links[name] = os.path.normpath(os.path.join(os.path.dirname(name), info.linkname))
        elif info.isreg() and not info.issparse():
            self.found[name] = (info.offset_data, info.size)

    def open(self, name: str) -> io.BufferedReader:
        """Open a file of the layout. One link is followed: `docker save` writes one for a layer that is used twice."""
        where = self.found.get(clean(name)) or self.found.get(self.links.get(clean(name), ""))
        if where is None:
            raise ImageError(f"the archive has no file {make_printable(name[:90])}, which its manifest needs")
        return io.BufferedReader(FileWindow(self.fd, *where), BUFFER)


def clean(name: str) -> str:
    return name.removeprefix("./").rstrip("/")


def reopen_file(fd: int) -> io.BufferedReader:
    return io.BufferedReader(io.FileIO(f"/proc/self/fd/{fd}"), BUFFER)


def detect_kind(stream: IO[bytes]) -> Kind:
    """Return the kind of a tar. Only a layout is read to its end."""
    names: set[str] = set()
    with open_tar(stream) as tar:
        for info in iterate_headers(tar):
            names.add(clean(info.name))
            if not _WRAPPING.fullmatch(clean(info.name)) or len(names) > _PART_LIMIT:
                return "tar"
    if INDEX in names:
        return "oci"
    return "docker" if "manifest.json" in names else "tar"


def is_compressed(stream: io.BufferedReader) -> bool:
    return stream.peek(6).startswith(tuple(OPENERS))


def decompress_stream(stream: io.BufferedReader, limits: ArchiveLimits) -> io.BufferedReader:
    head = stream.peek(6)
    for magic, open_inner in OPENERS.items():
        if head.startswith(magic):
            return io.BufferedReader(Bounded(open_inner(stream), limits.stream), BUFFER)
    return stream


def _open_gzip(stream: IO[bytes]) -> IO[bytes]:
    return gzip.open(stream)  # type: ignore[return-value]


def _open_bzip2(stream: IO[bytes]) -> IO[bytes]:
    return bz2.open(stream)


def _open_xz(stream: IO[bytes]) -> IO[bytes]:
    return lzma.open(stream)


def _open_zstd(stream: IO[bytes]) -> IO[bytes]:
    try:
        module = importlib.import_module("compression.zstd")
    except ImportError:
        remedy = "uncompress it with `zstd -d`, or compress it with gzip instead"
        raise ImageError(f"the archive is compressed with zstd, which this Python cannot read: {remedy}") from None
    inner: IO[bytes] = module.open(stream)
    return inner


OPENERS: dict[bytes, Callable[[IO[bytes]], IO[bytes]]] = {
    b"\x1f\x8b": _open_gzip,
    b"BZh": _open_bzip2,
    b"\xfd7zXZ\0": _open_xz,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}


def verify(stream: IO[bytes], digest: str, name: str) -> None:
    sha256 = hashlib.sha256()
    while data := stream.read(BUFFER):
        sha256.update(data)
    if f"sha256:{sha256.hexdigest()}" != digest:
        raise ImageError(f"the archive is damaged: layer {make_printable(name[:90])} does not match its digest")
