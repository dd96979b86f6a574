"""The program that sets up a wall: its path and version.

Running a program to get its version takes milliseconds, so that the result is stored for later keepers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zlib
from contextlib import suppress
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.room.layout import PATH
from hotdesk.desk.wall.own_file import read_own, write_own

_VERSION_SHAPE = re.compile(r"version (?:release-)?([0-9][0-9A-Za-z.~+-]{0,40})")
_MAX_VERSION_BYTES = 64
_ASK_TIMEOUT_S = 10.0
_versions: dict[str, str] = {}
"""Versions of programs by their files' identities."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program on this machine."""

    path: str
    identity: str
    """Changes whenever the file does."""
    changed: float
    """The file's modification time, in seconds since 1970."""


def find_program(name: str) -> Program | None:
    """Find a program by its name or path; return `None` if it is not installed."""
    path = shutil.which(name, path=PATH)
    if path is None:
        return None
    info = os.stat(path)
    marks = f"{path} {info.st_dev} {info.st_ino} {info.st_size} {info.st_mtime_ns}"
    return Program(path, f"{zlib.crc32(marks.encode()):08x}", info.st_mtime)


def read_version(program: Program, cache: Path) -> str:
    """Return a program's version, such as `1.14.1`; empty if it prints none."""
    if program.identity not in _versions:
        file = cache / f"version-{program.identity}.txt"
        stored = read_own(file, _MAX_VERSION_BYTES)
        if stored is not None:
            _versions[program.identity] = stored.decode("ascii", "replace")
        else:
            _versions[program.identity] = version = ask_version(program.path)
            if version and os.geteuid() == 0 and cache.parent.is_dir():
                with suppress(OSError):  # the next keeper asks again
                    cache.mkdir(mode=0o700, exist_ok=True)
                    write_own(file, version.encode())
    return _versions[program.identity]


def forget_silent() -> None:
    """Forget programs that printed no version, so that they run again: one may have been half installed, or slow."""
    for identity in [each for each, version in _versions.items() if not version]:
        del _versions[identity]


def ask_version(path: str) -> str:
    try:
        done = subprocess.run(
            [path, "--version"],
            input=b"",  # not /dev/null: subprocess opens it for writing, too, which a read-only process cannot
            capture_output=True,
            check=False,
            env={"PATH": PATH},
            timeout=_ASK_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION_SHAPE.search(done.stdout[:4096].decode("utf-8", "replace"))
    return found[1] if found else ""
