"""Many small sealed papers in few files, because creating a file costs more than all other work on a paper.

Each writing process appends to a file of its own, so a record that a killed process left incomplete is at the end of a
file and is ignored. A record is the paper's name, its length and its bytes.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from hotdesk.linux import private_files

NAME = 64
"""Characters of a paper's name."""
HEAD = NAME + 4
MAKE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Pile:
    """The papers in one folder. Other processes may add papers at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = secrets.token_hex(8)
        """Name of the file this process appends to."""
        self.places: dict[str, tuple[str, int, int]] = {}
        """File, offset and length of each paper, by name."""
        self.offsets: dict[str, int] = {}
        """Number of bytes read of each file."""
        self.new = True

    def has(self, name: str) -> bool:
        if self.new:
            self.look()
        return name in self.places

    def add(self, name: str, data: bytes) -> None:
        path, begins = self.folder / self.own, self.offsets.get(self.own, 0)
        record = name.encode() + len(data).to_bytes(4, "big") + data
        with private_files.translate_errors(path):
            fd = os.open(path, MAKE, 0o600)
            try:
                if os.write(fd, record) != len(record):
                    os.ftruncate(fd, begins)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(fd)
        self.places[name] = (self.own, begins + HEAD, len(data))
        self.offsets[self.own] = begins + len(record)

    def get(self, name: str) -> bytes | None:
        if name not in self.places:
            self.look()
        file, begins, size = self.places.get(name, ("", 0, 0))
        try:
            fd = os.open(self.folder / file, READ) if file else -1
        except OSError:
            return None
        if fd < 0:
            return None
        try:
            return os.pread(fd, size, begins)
        finally:
            os.close(fd)

    def look(self) -> None:
        self.new = False
        with suppress(FileNotFoundError):
            for file in os.listdir(self.folder):
                self.scan(file)

    def scan(self, file: str) -> None:
        with suppress(OSError), open(os.open(self.folder / file, READ), "rb") as opened:
            size, begins = os.fstat(opened.fileno()).st_size, self.offsets.get(file, 0)
            while begins + HEAD <= size:
                opened.seek(begins)
                head = opened.read(HEAD)
                length = int.from_bytes(head[NAME:], "big")
                if begins + HEAD + length > size:
                    break
                self.places.setdefault(head[:NAME].decode("ascii", "replace"), (file, begins + HEAD, length))
                begins += HEAD + length
            self.offsets[file] = begins
