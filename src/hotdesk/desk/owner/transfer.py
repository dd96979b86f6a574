"""Copy files between this machine and a desk. The desk's names, kinds and sizes are hostile; its links are not
followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import field
from pathlib import Path

import anyio

from hotdesk.config import GIB
from hotdesk.dataclass import dataclass
from hotdesk.desk.seam import Desk, Entry
from hotdesk.errors import BriefError, FileError, make_printable

CHUNK = 1 << 18
MAX_BYTES = 16 * GIB
MAX_ENTRIES = 200_000
MAX_DEPTH = 64
_Warn = Callable[[str], None]


async def put(desk: Desk, local: Path, remote: str, digests: dict[Path, str] | None = None) -> None:
    """Copy a file or folder of this machine into a desk. Links to files are followed, links to folders are not.

    `digests` gets the SHA-256 of the bytes that were sent of each file.
    """
    if not local.exists():
        raise BriefError(f"{local} does not exist on this machine")
    if not local.is_dir():
        target = remote + local.name if remote.endswith("/") else remote
        await desk.write(target, _read_local(local, digests), mode=stat.S_IMODE(local.stat().st_mode) & 0o755 | 0o600)
        return
    await desk.mkdir(remote)
    for folder, folders, names in os.walk(local):
        inside = os.path.join(remote, os.path.relpath(folder, local))
        for name in folders:
            if not os.path.islink(os.path.join(folder, name)):
                await desk.mkdir(os.path.join(inside, name))
        for name in names:
            if (path := Path(folder, name)).is_file():
                await put(desk, path, os.path.join(inside, name), digests)


async def _read_local(path: Path, digests: dict[Path, str] | None) -> AsyncIterator[bytes]:
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        size = CHUNK
        while size == CHUNK and (data := await anyio.to_thread.run_sync(file.read, CHUNK)):
            size = len(data)  # a short piece is the last: no other thread is needed for a small file
            sha256.update(data)
            yield data
    if digests is not None:
        digests[path] = sha256.hexdigest()


@dataclass(slots=True)
class Fetch:
    """A copy out of a desk, within limits."""

    desk: Desk
    warn: _Warn
    remaining_bytes: int = MAX_BYTES
    remaining_entries: int = MAX_ENTRIES
    skipped: list[str] = field(default_factory=list)

    async def copy_entry(self, found: Entry, remote: str, folder: int, name: str, depth: int) -> None:
        self.remaining_entries -= 1
        if self.remaining_entries < 0:
            raise FileError(
                f"the copy has more than {MAX_ENTRIES} entries, which is the limit; it stopped at "
                f"{make_printable(remote)}; copy fewer at once",
                "other",
            )
        if found.kind == "file":
            await self.copy_file(found, remote, folder, name)
        elif found.kind == "directory" and depth < MAX_DEPTH:
            await self.copy_folder(remote, folder, name, depth)
        else:
            self.skip(remote, f"a {found.kind}" if depth < MAX_DEPTH else "too deep")

    async def copy_folder(self, remote: str, above: int, name: str, depth: int) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=above)
        fd = open_local(name, os.O_RDONLY | os.O_DIRECTORY, above)
        try:
            for found in await self.desk.list(remote, limit=MAX_ENTRIES):
                if _is_safe(found.name):
                    await self.copy_entry(found, os.path.join(remote, found.name), fd, found.name, depth + 1)
                else:
                    self.skip(os.path.join(remote, found.name), "its name is not safe to use on this machine")
        finally:
            os.close(fd)

    async def copy_file(self, found: Entry, remote: str, above: int, name: str) -> None:
        """Copy a file's content and whether it is executable."""
        if found.size > self.remaining_bytes:
            most = f"the copy exceeds the limit of {MAX_BYTES // GIB} GiB at {make_printable(remote)}"
            raise FileError(f"{most}; copy fewer files at once, or read this file as a stream", "other")
        mode = 0o755 if found.mode & 0o100 else 0o644
        fd = open_local(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, above, mode)
        with os.fdopen(fd, "wb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise BriefError(f"{name!r} exists here and is not a file; remove it first")
            async with aclosing(self.desk.read_stream(remote)) as stream:
                async for data in stream:
                    self.remaining_bytes -= len(data)
                    if self.remaining_bytes < 0:
                        most = f"the copy exceeds the limit of {MAX_BYTES // GIB} GiB"
                        raise FileError(
                            f"{most}; it stopped at {make_printable(remote)}; copy fewer files at once", "other"
                        )
                    while data:
                        data = data[file.write(data) :]

    def skip(self, remote: str, why: str) -> None:
        self.skipped.append(remote)
        self.warn(f"left out {make_printable(remote)}: {why}")


async def get(desk: Desk, remote: str, local: Path, warn: _Warn) -> None:
    """Copy a file or folder out of a desk. Symbolic links, devices and unsafe names are skipped with a warning."""
    try:
        found = await desk.stat(remote)
    except FileError as e:
        raise FileError(f"in the desk: {e}", e.reason) from e
    if found.kind == "symlink":
        raise FileError(f"{make_printable(remote)} is a symbolic link in the desk; name its target instead", "invalid")
    into = local.is_dir() and found.kind == "file"
    name = os.path.basename(remote.rstrip("/")) if into else local.name
    parent = local if into else local.parent
    if not _is_safe(name):
        raise BriefError(
            f"{make_printable(name)!r} is not a valid file name on this machine; give the local file another name"
        )
    parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        await Fetch(desk, warn).copy_entry(found, remote, fd, name, 0)
    finally:
        os.close(fd)


def _is_safe(name: str) -> bool:
    """Return whether a name from a desk is safe on this machine: one printable path component."""
    if name in ("", ".", "..") or "/" in name or len(os.fsencode(name)) > 255:
        return False
    return name.isprintable()


def open_local(name: str, flags: int, folder: int, mode: int = 0o644) -> int:
    """Open a file below an open folder without following a link."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as e:
        raise BriefError(
            f"{make_printable(name)!r} cannot be written here: {e.strerror}; remove the existing file or folder"
        ) from e
