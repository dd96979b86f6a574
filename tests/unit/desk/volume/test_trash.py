"""Tests of deleting directories on a full volume, and while a desk keeps writing to them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from hotdesk.desk.room.volume_store import FILES, STAGING, VolumeStore
from hotdesk.desk.volume.files import VolumeFiles
from hotdesk.desk.volume.trash import DIRECTORY, discard

pytestmark = pytest.mark.container  # mounts a file system, which needs root


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Path]:
    """Yield where a volume is mounted."""
    store, at = VolumeStore(tmp_path / "store", tmp_path / "place"), tmp_path / "at"
    store.make("trash", 16 << 20)
    store.mount("trash", at)
    yield at
    store.unmount(at)


@pytest.fixture
def volume(at: Path) -> Iterator[VolumeFiles]:
    folders = [os.open(at / name, DIRECTORY) for name in (FILES, STAGING)]
    yield VolumeFiles(*folders)
    for fd in folders:
        os.close(fd)


def fill_with_bytes(folder: Path) -> None:
    (folder / "deep").mkdir(parents=True)
    with open(folder / "deep/big", "wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass
    exhaust(folder / "deep")


def exhaust(folder: Path) -> None:
    """Make directories until there is no room for another."""
    folder.mkdir(exist_ok=True)
    with suppress(OSError):
        for number in count():
            (folder / f"{number:0200}").mkdir()
    with suppress(OSError):  # where the last one failed, it may have needed two blocks; here each needs one
        for number in count():
            (folder / f"{0:0200}" / str(number)).mkdir()


def nest(folder: Path) -> None:
    """Make directories in each other until there is no room for another, and many beside each other before."""
    folder.mkdir()
    for number in range(300):
        (folder / str(number)).mkdir()
    fd = os.open(folder, DIRECTORY)
    with suppress(OSError):
        while True:
            os.mkdir("d", dir_fd=fd)
            inner = os.open("d", DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
    os.close(fd)


@pytest.mark.parametrize("fill", [fill_with_bytes, exhaust, nest])
def test_a_folder_of_a_full_volume_can_be_removed(at: Path, volume: VolumeFiles, fill: object) -> None:
    free = os.statvfs(at).f_bfree, os.statvfs(at).f_ffree
    assert callable(fill)
    fill(at / FILES / "full")
    with pytest.raises(OSError, match="No space left"):
        os.mkdir(at / FILES / "one more")
    volume.remove("/full")
    assert (os.listdir(at / FILES), os.listdir(at / STAGING)) == ([], [])
    assert os.statvfs(at).f_ffree == free[1]
    assert os.statvfs(at).f_bfree > free[0] - 64


def test_a_directory_that_a_desk_keeps_writing_to_is_given_up_after_a_time(at: Path, volume: VolumeFiles) -> None:
    folder = at / FILES / "busy"
    folder.mkdir()
    fd, stop = os.open(folder, DIRECTORY), threading.Event()

    def write() -> None:
        for number in count():
            if stop.is_set():
                return
            with suppress(FileExistsError, FileNotFoundError):
                os.mkdir(str(number % 1000), dir_fd=fd)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        volume.delete_limit_s = 0.3
        start = time.monotonic()
        volume.remove("/busy")
        assert time.monotonic() - start < 5
    finally:
        stop.set()
        writer.join()
        os.close(fd)
    volume.delete_limit_s = 30.0
    while not volume.leftovers.empty():
        volume.sweep(volume.leftovers.get())
    assert (os.listdir(at / FILES), os.listdir(at / STAGING)) == ([], [])


def test_what_is_left_after_the_time_limit_is_swept(at: Path, volume: VolumeFiles) -> None:
    (at / FILES / "tree/inner").mkdir(parents=True)
    volume.delete_limit_s = -1.0
    volume.remove("/tree")
    assert (os.listdir(at / FILES), len(os.listdir(at / STAGING))) == ([], 1)
    volume.delete_limit_s = 30.0
    volume.sweep(volume.leftovers.get())
    assert (os.listdir(at / STAGING), volume.leftovers.empty()) == ([], True)


def test_a_file_that_a_desk_put_in_place_of_a_directory_is_deleted(at: Path) -> None:
    (at / STAGING / "a.trash").write_text("a desk replaced the directory before it was moved here")
    staging = os.open(at / STAGING, DIRECTORY)
    try:
        assert discard(staging, b"a.trash", 30.0) == []
    finally:
        os.close(staging)
    assert os.listdir(at / STAGING) == []
