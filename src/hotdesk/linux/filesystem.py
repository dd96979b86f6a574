"""Tools for file systems: make one, measure its usage, hold a directory open."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.linux import syscalls

FLAGS = syscalls.MS_NODEV | syscalls.MS_NOSUID | syscalls.MS_NOATIME
"""Mount flags of every writable layer."""


def run_tool(*argv: str) -> None:
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        done = subprocess.run(
            argv, check=False, env={"PATH": path}, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
    except FileNotFoundError as e:
        raise HostError(f"{argv[0]} is not installed; run `hotdesk setup`") from e
    except subprocess.TimeoutExpired as e:
        raise HostError(f"{argv[0]} did not finish within a minute; the machine may be overloaded, try again") from e
    if done.returncode:
        raise HostError(f"{argv[0]} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")


def count_used_bytes(folder: Path) -> int:
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


@contextmanager
def hold_folder(folder: Path) -> Iterator[int]:
    fd = open_folder(folder)
    try:
        yield fd
    finally:
        os.close(fd)
