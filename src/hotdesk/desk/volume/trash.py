"""Delete directories of any size and depth in constant memory: a desk decides how many names a volume has."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FULL = (errno.ENOSPC, errno.EDQUOT)


class _OutOfTimeError(Exception):
    """The time limit of a deletion is reached."""


def make_trash_name() -> bytes:
    return f"{os.urandom(12).hex()}.trash".encode()


def discard(staging: int, name: bytes, limit_s: float) -> list[bytes]:
    """Delete a directory in the staging area; return the names of what is left there when the time limit is reached.

    It is moved into a new one that no desk has open, and so is each directory found in it: whatever their depth and
    number, they are deleted one after another, without a list of them.
    """
    end = time.monotonic() + limit_s
    top = make_trash_name()
    with suppress(_OutOfTimeError):
        if _allocate(partial(os.mkdir, top, 0o700, dir_fd=staging), staging, name, end):
            _empty_into(staging, name, top, end)
    return [each for each in (name, top) if _exists(staging, each)]


def _empty_into(staging: int, name: bytes, top: bytes, end: float) -> None:
    pile = os.open(top, DIRECTORY | os.O_CLOEXEC, dir_fd=staging)
    try:
        _move(staging, name, pile, end)
        while _clear(pile, end):
            pass
    finally:
        os.close(pile)
        with suppress(OSError):  # what could not be deleted stays until the next sweep
            os.rmdir(top, dir_fd=staging)


def _clear(pile: int, end: float) -> bool:
    """Delete the directories in `pile`; return whether there were any. Those that they contain are added meanwhile."""
    found = False
    with os.scandir(pile) as entries:
        for entry in entries:
            found = True
            name = os.fsencode(entry.name)
            if _unlink(pile, name, end):
                continue
            folder = os.open(name, DIRECTORY | os.O_CLOEXEC, dir_fd=pile)
            try:
                _empty(folder, pile, end)
            finally:
                os.close(folder)
            _rmdir(pile, name)
    return found


def _empty(folder: int, pile: int, end: float) -> None:
    """Delete the files in a directory, and move its directories into `pile`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if not _unlink(folder, name, end):
                _move(folder, name, pile, end)


def _unlink(folder: int, name: bytes, end: float) -> bool:
    """Delete a file; return False if it is a directory. A desk may write to the folder faster than it is emptied."""
    if time.monotonic() > end:
        raise _OutOfTimeError
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass  # a desk that has the folder open moved it
    return True


def _rmdir(folder: int, name: bytes) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except OSError as e:
        if e.errno != errno.ENOTEMPTY:  # a desk wrote to it meanwhile: it is found again
            raise


def _move(folder: int, name: bytes, pile: int, end: float) -> None:
    move = partial(os.rename, name, make_trash_name(), src_dir_fd=folder, dst_dir_fd=pile)
    with suppress(FileNotFoundError):
        _allocate(move, folder, name, end)


# -- on a full volume ---------------------------------------------------------------------------------------------


def _allocate(work: Callable[[], None], folder: int, name: bytes, end: float) -> bool:
    """Do what may need a free block. While there is none, delete the directory `name` bit by bit.

    Return False if nothing of the directory is left before it could be done.
    """
    while True:
        try:
            work()
            return True
        except OSError as e:
            if e.errno not in _FULL:
                raise
        with suppress(FileNotFoundError):  # a desk that has the folder open moved it
            _prune(folder, name, end)
        if not _exists(folder, name):
            return False


def _prune(folder: int, name: bytes, end: float) -> None:
    """Delete one innermost directory below `name`, or `name` itself, and files on the way there."""
    opened = -1
    try:
        while not _unlink(folder, name, end):
            inner = os.open(name, DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
            try:
                found = _unlink_files(inner, end)
            except BaseException:
                os.close(inner)
                raise
            if found is None:
                os.close(inner)
                _rmdir(folder, name)
                return
            if opened >= 0:
                os.close(opened)
            folder, name, opened = inner, found, inner
    finally:
        if opened >= 0:
            os.close(opened)


def _unlink_files(folder: int, end: float) -> bytes | None:
    """Delete the files in a directory up to the first directory in it; return the name of that, if there is one."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if not _unlink(folder, name, end):
                return name
    return None


def _exists(folder: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
