"""Files named by their SHA-256: complete, flushed to disk, readable by one user, and never changed.

Bytes are written under a temporary name beside the blobs and renamed in one step. Partial files of killed processes are
removed by a sweep.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from hotdesk.dataclass import dataclass
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files

CHUNK = 1 << 20
SHAPE = re.compile(r"[0-9a-f]{64}")
HALF = ".half."
"""The prefix of a temporary file's name."""
_SETTLED = 60.0
"""Seconds after which a partial file that no process has locked counts as left behind."""


class ByteSource(Protocol):
    """A source of bytes: an open file, or any object with the same `read`."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; empty at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes that are on disk under a temporary name."""

    half: str
    sha256: str
    size: int


class Blobs:
    """The blobs of one drive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private_files.make_folder(folder)

    def get_path(self, sha256: str) -> Path:
        return self.folder / sha256

    @contextmanager
    def stage(self, source: ByteSource, limit: int) -> Iterator[Staged]:
        """Write bytes to a temporary file for a block that may admit them; raise `BriefError` beyond `limit`."""
        half = f"{HALF}{secrets.token_hex(8)}"
        with private_files.enter_folder(self.folder) as place:
            with private_files.translate_errors(self.folder / half):
                fd = private_files.create(place, half, 0o400)
            try:
                with open(fd, "wb") as file:
                    fcntl.flock(fd, fcntl.LOCK_EX)
                    yield Staged(half, *self.fill(file, source, limit))
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(half, dir_fd=place)

    def fill(self, file: BinaryIO, source: ByteSource, limit: int) -> tuple[str, int]:
        """Copy bytes into a file and flush it to disk; return their hash and number."""
        digest, size = hashlib.sha256(), 0
        while data := source.read(CHUNK):
            size += len(data)
            if size > limit:
                raise BriefError(
                    f"the file has more than {limit} bytes, and fewer remain of its owner's quota; remove versions "
                    "with `hotdesk drive rm NAME@VERSION`"
                )
            digest.update(data)
            with private_files.translate_errors(self.folder):
                file.write(data)
        with private_files.translate_errors(self.folder):
            file.flush()
            os.fsync(file.fileno())
        return digest.hexdigest(), size

    def admit(self, staged: Staged) -> None:
        """Rename staged bytes to their hash. An existing blob is replaced, which also repairs one that was changed."""
        with (
            private_files.enter_folder(self.folder) as place,
            private_files.translate_errors(self.get_path(staged.sha256)),
        ):
            os.rename(staged.half, staged.sha256, src_dir_fd=place, dst_dir_fd=place)
            os.fsync(place)

    def read(self, sha256: str, size: int) -> Iterator[bytes]:
        """Yield a blob's bytes; raise `HostError` at the end if they were changed.

        A caller that passes bytes on before the end must be able to take them back.
        """
        digest, remaining = hashlib.sha256(), size
        with self.open_blob(sha256) as file:
            while data := file.read(min(CHUNK, remaining + 1)):
                digest.update(data)
                remaining -= len(data)
                if remaining < 0:
                    break
                yield data
        if remaining or digest.hexdigest() != sha256:
            raise HostError(f"the stored file {self.get_path(sha256)} was changed; restore it from a backup")

    @contextmanager
    def open_blob(self, sha256: str) -> Iterator[BinaryIO]:
        path = self.get_path(sha256)
        with private_files.enter_folder(self.folder) as place:
            try:
                fd = os.open(sha256, private_files.READ, dir_fd=place)
            except OSError as e:
                raise HostError(f"the stored file {path} cannot be read: {e.strerror}; restore it from a backup") from e
        with open(fd, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise HostError(f"the stored file {path} is not a regular file; restore it from a backup")
            yield file

    def measure_size(self, sha256: str, most: int) -> int:
        with self.open_blob(sha256) as file:
            return min(os.fstat(file.fileno()).st_size, most)

    def list_blobs(self) -> list[str]:
        return [name for name in os.listdir(self.folder) if SHAPE.fullmatch(name)]

    def remove(self, sha256: str) -> int:
        """Remove a blob; return its size, or 0 if there is none."""
        with private_files.enter_folder(self.folder) as place:
            try:
                size = os.stat(sha256, dir_fd=place, follow_symlinks=False).st_size
                os.unlink(sha256, dir_fd=place)
            except FileNotFoundError:
                return 0
        return size

    def sweep_halves(self) -> int:
        """Remove partial files of killed processes; return the number of bytes removed."""
        swept = 0
        with private_files.enter_folder(self.folder) as place:
            for name in os.listdir(place):
                if name.startswith(HALF) and self.is_left(place, name):
                    swept += os.stat(name, dir_fd=place, follow_symlinks=False).st_size
                    os.unlink(name, dir_fd=place)
        return swept

    def is_left(self, place: int, name: str) -> bool:
        """Return whether a partial file is old and no process is writing it."""
        with suppress(OSError):
            fd = os.open(name, private_files.READ, dir_fd=place)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return os.fstat(fd).st_mtime < time.time() - _SETTLED
            finally:
                os.close(fd)
        return False
