"""Tests of copying sparse files: all written data, and nothing else."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk.config import MIB
from hotdesk.desk.room.ext4 import Ext4, list_extents

BLOCK = 4096


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


@pytest.mark.parametrize(
    ("size", "parts"),
    [
        (0, []),
        (MIB, []),
        (BLOCK, [(0, BLOCK)]),
        (MIB, [(0, MIB)]),
        (MIB, [(0, BLOCK)]),
        (MIB, [(MIB - BLOCK, MIB)]),
        (16 * MIB, [(BLOCK, 2 * BLOCK), (MIB, 3 * MIB), (16 * MIB - BLOCK, 16 * MIB)]),
        (1 << 34, [(1 << 33, (1 << 33) + BLOCK)]),
    ],
    ids=["empty", "hole", "block", "whole", "beginning", "end", "pieces", "large"],
)
def test_ranges_with_data_are_found(file: int, size: int, parts: list[tuple[int, int]]) -> None:
    os.ftruncate(file, size)
    for start, end in parts:
        os.pwrite(file, b"x" * (end - start), start)
    assert list(list_extents(file, size)) == parts


def test_ranges_that_cannot_be_read_are_an_error_and_not_a_hole() -> None:
    reader, writer = os.pipe()  # a disk's EIO cannot be made here; a pipe's ESPIPE can
    try:
        with pytest.raises(OSError, match="Illegal seek"):
            next(list_extents(reader, BLOCK))
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_copy_is_the_same_and_as_sparse(file: int, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    size = 200 * MIB + seed * BLOCK
    os.ftruncate(file, size)
    for _ in range(20):
        os.pwrite(file, chance.randbytes(chance.randrange(1, 100_000)), chance.randrange(size - 100_000))
    size = os.fstat(file).st_size
    copy = Ext4(tmp_path).copy(file)
    try:
        assert os.fstat(copy).st_size == size
        assert os.fstat(copy).st_nlink == 0
        for at in range(0, size, MIB):
            assert os.pread(copy, MIB, at) == os.pread(file, MIB, at)
        assert os.fstat(copy).st_blocks <= os.fstat(file).st_blocks + 64
    finally:
        os.close(copy)


def test_a_copy_that_fails_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    source = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(OSError):  # noqa: PT011 - a folder cannot be copied as a file
        Ext4(tmp_path).copy(source)
    os.close(source)
    assert len(os.listdir("/proc/self/fd")) == before
