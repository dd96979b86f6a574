"""Copy a file without its holes, and hash it so that holes and zeros are equal."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator

PAGE = 4096
WINDOW = 32 * PAGE
"""Bytes compared and hashed at a time. Windows start at multiples of this, so that the digest does not depend on holes.
"""
_ZEROS = bytes(PAGE)


def copy_content(source: int, target: int, size: int, spend: Callable[[int], None]) -> bytes:
    """Copy the ranges that are not zero into an empty file of `size` bytes; return the digest of the whole content."""
    digest = hashlib.sha256()
    for start in _iterate_windows(source, size):
        data = read(source, start, min(WINDOW, size - start))
        for first, last in iterate_runs(data):
            run = data[first:last]
            digest.update(b"%d:%d;" % (start + first, len(run)))
            digest.update(run)
            spend(len(run))
            write(target, start + first, run)
    os.ftruncate(target, size)
    return digest.digest()


def _iterate_windows(fd: int, size: int) -> Iterator[int]:
    """Yield the start of each window that contains data. Time depends on the data, not on the file's length."""
    start = 0
    while start < size:
        try:
            start = os.lseek(fd, start, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                return
            raise
        start -= start % WINDOW
        yield start
        start += WINDOW


def iterate_runs(data: memoryview) -> Iterator[tuple[int, int]]:
    """Yield the ranges of pages that contain non-zero bytes."""
    first = -1
    for start in range(0, len(data), PAGE):
        page = data[start : start + PAGE]
        if page == _ZEROS[: len(page)]:
            if first >= 0:
                yield first, start
            first = -1
        elif first < 0:
            first = start
    if first >= 0:
        yield first, len(data)


def read(fd: int, start: int, size: int) -> memoryview:
    data = bytearray()
    while len(data) < size:
        more = os.pread(fd, size - len(data), start + len(data))
        if not more:
            raise OSError(errno.ESTALE, "the file shrank while it was read")
        data += more
    return memoryview(data)


def write(fd: int, start: int, data: memoryview) -> None:
    while data:
        done = os.pwrite(fd, data, start)
        start, data = start + done, data[done:]
