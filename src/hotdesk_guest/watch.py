"""Watch a folder with inotify: created, written, removed and renamed entries, and changed modes."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from hotdesk_guest.wire import encode

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO = 0x2, 0x4, 0x40, 0x80
CREATE, DELETE = 0x100, 0x200
OVERFLOW, IGNORED, ONLYDIR, DONT_FOLLOW, ISDIR = 0x4000, 0x8000, 0x1000000, 0x2000000, 0x40000000
KINDS = (
    (CREATE | MOVED_TO, "create"),
    (MODIFY, "write"),
    (DELETE, "remove"),
    (MOVED_FROM, "rename"),
    (ATTRIB, "chmod"),
)
WATCHED_EVENTS = CREATE | MOVED_TO | MODIFY | DELETE | MOVED_FROM | ATTRIB | ONLYDIR
HEAD = struct.Struct("=iIII")
READ = 1 << 16
BATCH = 8192
HIGH = 4096
"""Changes waiting for the host above which no more are read."""
MAX_EVENTS = 1 << 16
"""More changes than the kernel ever queues."""
MAX_FOLDERS = 8192

libc = ctypes.CDLL(None, use_errno=True)


class GuestWatch:
    """A watched folder, with `recursive` including all folders below it."""

    def __init__(self, top: str, recursive: bool) -> None:
        self.top = top
        self.recursive = recursive
        self.folders: dict[int, str] = {}
        """Paths of watched folders, relative to the top and with a trailing slash, by watch descriptor."""
        self.found: set[str] = set()
        """Entries found when a new folder was scanned; the kernel may report them once more."""
        self.waiting: list[dict[str, object]] = []
        self.polled = True
        self.fd = check(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        try:
            self.add("")
            if recursive:
                self.look("", tell=False)
        except OSError:
            os.close(self.fd)
            raise

    def add(self, below: str) -> None:
        if len(self.folders) >= MAX_FOLDERS:
            raise OSError(errno.ENOSPC, "more than %d folders cannot be watched" % MAX_FOLDERS)
        flags = WATCHED_EVENTS | (DONT_FOLLOW if below else 0)
        path = os.path.join(self.top, below).encode("utf-8", "surrogateescape")
        self.folders[check(libc.inotify_add_watch(self.fd, path, ctypes.c_uint32(flags)), self.top)] = below

    def look(self, below: str, tell: bool) -> None:
        """Watch the folders inside one. With `tell`, report the entries as created."""
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            try:
                entries = sorted(os.scandir(os.path.join(self.top, folder)), key=lambda entry: entry.name)
            except OSError:
                continue  # it was removed, or permission is denied
            for entry in entries:
                path = folder + entry.name
                if tell:
                    self.found.add(path)
                    self.waiting.append({"kind": "create", "path": path})
                if entry.is_dir(follow_symlinks=False):
                    try:
                        self.add(path + "/")
                    except OSError as e:
                        if not tell and e.errno == errno.ENOSPC:
                            raise
                        continue
                    waiting.append(path + "/")

    def read(self, most: int = HIGH) -> None:
        """Read the kernel's events, until there are no more or enough wait."""
        while len(self.waiting) < most:
            try:
                data = os.read(self.fd, READ)
            except OSError:
                self.found.clear()  # the kernel has reported everything from before the scan
                return
            at = 0
            while at < len(data):
                number, mask, _, length = HEAD.unpack_from(data, at)
                at += HEAD.size
                name = data[at : at + length].rstrip(b"\0").decode("utf-8", "surrogateescape")
                at += length
                self.note(number, mask, name)

    def note(self, number: int, mask: int, name: str) -> None:
        if mask & OVERFLOW:
            self.waiting.append({"kind": "overflow", "path": ""})
        elif mask & IGNORED:
            self.folders.pop(number, None)
        elif number in self.folders and name:
            self.change(mask, self.folders[number] + name)

    def change(self, mask: int, path: str) -> None:
        kind = next((word for bits, word in KINDS if mask & bits), None)
        if kind is None:
            return
        reported = path in self.found
        if kind in ("create", "remove", "rename"):
            self.found.discard(path)  # a new entry of the same name is another one
        if kind == "create" and reported:
            return
        self.waiting.append({"kind": kind, "path": path})
        if self.recursive and mask & ISDIR:
            if kind == "create":
                self.enter(path + "/")
            elif kind == "rename":
                self.leave(path + "/")

    def enter(self, below: str) -> None:
        """Watch a folder that appeared, and report entries that were created in it before."""
        try:
            self.add(below)
        except OSError:
            return  # it was removed again, or there are too many
        self.look(below, tell=True)

    def leave(self, below: str) -> None:
        for number, path in list(self.folders.items()):
            if path.startswith(below):
                del self.folders[number]
                libc.inotify_rm_watch(self.fd, number)

    def drain(self, mark: int) -> None:
        """Read all of the kernel's events, then add the host's mark: earlier changes are reported before it."""
        self.read(most=MAX_EVENTS)
        self.waiting.append({"drained": mark})

    def take(self) -> bytes:
        """Return the next changes for the host as one event; empty if there are none."""
        batch: list[dict[str, object]] = []
        size = 0
        while len(batch) < len(self.waiting) and size < BATCH:
            batch.append(self.waiting[len(batch)])
            size += len(encode(batch[-1]))
        del self.waiting[: len(batch)]
        return encode(batch) if batch else b""

    def wants_more(self) -> bool:
        """Return whether more may be read from the kernel before the host has taken some."""
        return len(self.waiting) < HIGH

    def close(self) -> None:
        """Stop watching. Closing the descriptor also removes it from the poll."""
        os.close(self.fd)


def check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))
    return result
