"""Delete directories of any size and depth in constant memory: a desk decides how many names a volume has."""

from __future__ import annotations

import os
from contextlib import suppress

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def make_trash_name() -> bytes:
    return f"{os.urandom(12).hex()}.trash".encode()


def discard(staging: int, name: bytes) -> None:
    """Delete a directory in the staging area.

    It is moved into a new one that no desk has open, and so is each directory found in it: whatever their depth and
    number, they are deleted one after another, without a list of them.
    """
    top = make_trash_name()
    os.mkdir(top, 0o700, dir_fd=staging)
    pile = os.open(top, DIRECTORY | os.O_CLOEXEC, dir_fd=staging)
    try:
        os.rename(name, make_trash_name(), src_dir_fd=staging, dst_dir_fd=pile)
        while _clear(pile):
            pass
    finally:
        os.close(pile)
        with suppress(OSError):  # what could not be deleted stays until the next sweep
            os.rmdir(top, dir_fd=staging)


def _clear(pile: int) -> bool:
    """Delete the directories in `pile`; return whether there were any. Those that they contain are added meanwhile."""
    found = False
    with os.scandir(pile) as entries:
        for entry in entries:
            found = True
            folder = os.open(entry.name, DIRECTORY | os.O_CLOEXEC, dir_fd=pile)
            try:
                _empty(folder, pile)
            finally:
                os.close(folder)
            os.rmdir(entry.name, dir_fd=pile)
    return found


def _empty(folder: int, pile: int) -> None:
    """Delete the files in a directory, and move its directories into `pile`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            try:
                os.unlink(name, dir_fd=folder)
            except IsADirectoryError:
                os.rename(name, make_trash_name(), src_dir_fd=folder, dst_dir_fd=pile)
