"""The journal's outbox: events of processes without a keys process to sign them, as lines of JSON.

Starting keys takes a tenth of a second, and most desks need none. So the keeper and root's commands append here, and
the next process that opens the journal moves the lines into its chains (`drive/outbox.py`). The folder is that of keys,
so a line is as safe as the signing key. Standard library only: the keeper imports this.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.errors import HostError
from hotdesk.linux import uids

FILE = "outbox.jsonl"
MAX_WAITING = 10_000
"""Maximum lines kept in memory while the file cannot be written."""
RETRY_S = 0.2
MAX_LINE_BYTES = 1 << 20
"""Maximum bytes of a line that is read."""
LOCK_TIMEOUT_S = 1.0
"""How long a process that must record an event, or that ends, waits for a reader."""
_POLL_INTERVAL_S = 0.005
FLAGS = os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Outbox:
    """Appends events. Those that cannot be written at once are written with the next one, or by `turn`."""

    def __init__(self, lib: Path) -> None:
        self.folder = lib / "keys"
        self.waiting: list[bytes] = []

    def add(self, actor: str, event: str, data: Mapping[str, object]) -> None:
        """Append an event, without waiting for a reader that holds the lock."""
        if len(self.waiting) < MAX_WAITING:
            self.waiting.append(_encode(actor, event, data))
        self.turn()

    def record(self, actor: str, event: str, data: Mapping[str, object]) -> None:
        """Append an event of a command that does not run again; raise `HostError` if that fails."""
        self.waiting.append(_encode(actor, event, data))
        try:
            self.flush(LOCK_TIMEOUT_S)
        except OSError as e:
            self.waiting.clear()
            why = f"{e.strerror or e}; check the disk space, then"
            if isinstance(e, BlockingIOError):
                why = "the journal is busy;"
            raise HostError(f"{event} cannot be recorded in {self.folder / FILE}: {why} run the command again") from e

    def turn(self) -> None:
        """Write what waits, if that is possible now."""
        self.finish(0.0)

    def iterate_waits(self) -> Iterator[float]:
        """Yield the seconds until events that wait are tried again: an event that nobody can read proves no wall."""
        if self.waiting:
            yield RETRY_S

    def finish(self, timeout_s: float) -> None:
        """Write what waits, if that is possible within a time: opening and ending desks must not fail because of it."""
        with suppress(OSError):  # a full disk, or a reader at work
            self.flush(timeout_s)

    def flush(self, timeout_s: float) -> None:
        if not self.waiting:
            return
        make_folder(self.folder)
        with _open_outbox(self.folder, os.O_WRONLY | os.O_APPEND | FLAGS) as fd:
            _lock(fd, timeout_s)
            while self.waiting:
                _append(fd, self.waiting[0])
                del self.waiting[0]


def _encode(actor: str, event: str, data: Mapping[str, object]) -> bytes:
    line = {"at": int(time.time() * 1000), "actor": actor, "event": event, "data": data}
    return json.dumps(line).encode() + b"\n"


def _lock(fd: int, timeout_s: float) -> None:
    """Lock the file; raise `BlockingIOError` if another process holds the lock for longer."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(_POLL_INTERVAL_S)


def _append(fd: int, line: bytes) -> None:
    """Write a whole line, or nothing: half of one would make the next one unreadable as well."""
    size = os.fstat(fd).st_size
    if os.write(fd, line) < len(line):
        os.ftruncate(fd, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        uids.give_empty_folder(folder, uids.KEYS)


@contextmanager
def _open_outbox(folder: Path, flags: int) -> Iterator[int]:
    """Open the file below its folder without following links: the folder belongs to a less privileged user."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        above = os.fstat(place)
        fd = os.open(FILE, flags, 0o600, dir_fd=place)
    finally:
        os.close(place)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise OSError(f"{folder / FILE} is not a regular file with a single hard link; move it away")
        if found.st_uid != above.st_uid and os.geteuid() == 0:
            os.fchown(fd, above.st_uid, above.st_gid)
        yield fd
    finally:
        os.close(fd)


def is_empty(folder: Path) -> bool:
    try:
        return (folder / FILE).stat().st_size == 0
    except OSError:
        return True


@contextmanager
def take_entries(folder: Path) -> Iterator[Iterator[dict[str, object]]]:
    """Yield the waiting events, oldest first; remove them if the block succeeds. Incomplete lines are skipped."""
    with _open_outbox(folder, os.O_RDWR | FLAGS) as fd:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        yield read_lines(fd)
        os.ftruncate(fd, 0)


def read_lines(fd: int) -> Iterator[dict[str, object]]:
    """Yield the complete lines one by one, so that memory stays bounded."""
    with open(fd, "rb", closefd=False) as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict):
                yield found
