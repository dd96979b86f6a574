"""The seam of walls: the keeper's interface to anything that isolates a desk from the host.

A wall starts a desk's first process in a room that the keeper has prepared, and proves from the host's /proc that the
process is behind it. Everything else (disk, snapshots, freezing, limits, deadlines, the link to the guest) is the same
for every wall and stays with the keeper. Standard library only: the keeper has every privilege.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Protocol

from hotdesk.dataclass import dataclass
from hotdesk.desk.room.room import Room
from hotdesk.desk.seam import Spec
from hotdesk.linux import syscalls
from hotdesk.walls import Traits

PROOF_TIMEOUT_S = 3.0
"""How long a runtime's child may take for its last steps before a flaw in its wall counts; it may be a busy machine."""
GO = b"1"


class StartError(Exception):
    """The runtime did not start a guest; the text says why."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A process of ours in the desk's cgroup that becomes the runtime on command."""

    pid: int
    go: int
    """The descriptor of the go-ahead; it ends when every holder has closed this, and so does not outlive its keeper."""
    console: int
    """The read end of the desk's standard output."""
    word: Callable[[], bytes] = lambda: GO
    """The go-ahead: `GO`, and what is not known before the room is complete."""

    def run(self) -> tuple[int, int]:
        """Make it become the runtime; return its pid, and the read end of the desk's standard output."""
        try:
            os.write(self.go, self.word())
        except BrokenPipeError:
            pass  # it could not join its cgroup, and ended: its exit code says so
        finally:
            os.close(self.go)
        return self.pid, self.console

    def dismiss(self) -> None:
        """End it before it becomes the runtime. Another standby may hold its pipe as well."""
        os.kill(self.pid, signal.SIGKILL)
        syscalls.close_all((self.go, self.console))


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """A process of ours in the desk's cgroup that has a desk's memory written down.

    It says `GO` at `report` when everything is written and no program runs, and anything else, or nothing, when that
    failed. Then it waits for `GO` at `go`. Unless the desk shall stop and everything is written, it lets programs run
    and says `GO` again.
    """

    pid: int
    report: int
    go: int


class Wall(Protocol):
    """One kind of wall on this machine. It holds nothing of a single desk: that is the room's."""

    @property
    def name(self) -> str:
        """The name in `Spec.wall`, briefs and desk.json."""
        ...

    @property
    def traits(self) -> Traits:
        """What it can do on this machine."""
        ...

    def stand_by(self, room: Room) -> Standby:
        """Start a process that joins the desk's cgroup and waits. Joining is slow; the room is made meanwhile."""
        ...

    def prepare(self, room: Room) -> None:
        """Write the runtime's input once the room is complete; again before each boot of the desk."""
        ...

    def find_guest(self, room: Room, status: int, *, root: bool = False) -> int:
        """Return the pid of the guest, or of root's guest, after the runtime exited; raises `StartError`."""
        ...

    def prove(self, room: Room, pid: int) -> None:
        """Raise `KeeperError` unless the desk's first process is behind every part of the wall."""
        ...

    def find_caller(self, room: Room, pid: int, *, root: bool = False) -> tuple[int, int]:
        """Return the pid and host user id with which the guest, or root's guest, calls its owner."""
        ...

    def enter(self, room: Room) -> int:
        """Start root's guest in a desk that may have root; return the pid of the runtime that starts it."""
        ...

    def list_root_flaws(self, room: Room, pid: int, first: int) -> list[str]:
        """List what is wrong with the wall around root's guest; `first` is the desk's first process."""
        ...

    def save_memory(self, room: Room, *, stop: bool) -> MemoryWriter:
        """Start writing the desk's memory to its layer; with `stop` its programs do not run afterwards.

        Only if `traits.can_keep_memory`. A desk with `room.memory` set is later started from it.
        """
        ...

    def explain_memory(self, room: Room) -> str:
        """Return why a desk's memory could not be written."""
        ...

    def settle(self, room: Room, spec: Spec, pid: int) -> None:
        """Adapt a ready desk to the spec of its claim, before the room is adapted."""
        ...

    def dial(self, room: Room, port: int) -> socket.socket:
        """Return a socket to a port on the desk's loopback, connected or connecting; `OSError` when refused."""
        ...
