"""The seam of walls: the keeper's interface to anything that isolates a desk from the host.

A wall starts a desk's first process in a room that the keeper has prepared, and proves from the host's /proc that the
process is isolated. Everything else (disk, snapshots, freezing, limits, deadlines, the link to the guest) is the same
for every wall and done by the keeper. Standard library only: the keeper has every privilege.
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
"""Seconds a runtime's child may take to complete its setup before a flaw counts, as the machine may be busy."""
GO = b"1"


class StartError(Exception):
    """The runtime did not start a guest; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Standby:
    """A child process in the desk's cgroup that becomes the runtime on command."""

    pid: int
    go: int
    """The descriptor for the command. The process ends once every copy is closed, so it does not outlive its keeper."""
    console: int
    """The read end of the desk's standard output."""
    word: Callable[[], bytes] = lambda: GO
    """Returns the command: `GO`, followed by facts that are known only once the room is complete."""

    def run(self) -> tuple[int, int]:
        """Let it become the runtime; return its pid, and the read end of the desk's standard output."""
        try:
            os.write(self.go, self.word())
        except BrokenPipeError:
            pass  # it could not join its cgroup and has ended; its exit code shows that
        finally:
            os.close(self.go)
        return self.pid, self.console

    def dismiss(self) -> None:
        """Kill it before it becomes the runtime; closing the pipe is not enough, as another standby may have a copy."""
        os.kill(self.pid, signal.SIGKILL)
        syscalls.close_all((self.go, self.console))


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """A child process in the desk's cgroup that has a desk's memory saved.

    It writes `GO` to `report` when the memory is written and no program runs, and anything else, or nothing, if that
    failed. Then it waits for data at `go`. Unless the desk is to stop and the memory is written, it lets programs
    continue and writes `GO` again.
    """

    pid: int
    report: int
    go: int


class Wall(Protocol):
    """One kind of wall on this machine. It has no state of a single desk: that is in the room."""

    @property
    def name(self) -> str:
        """Return the name in `Spec.wall`, briefs and desk.json."""
        ...

    @property
    def traits(self) -> Traits:
        """Return its abilities on this machine."""
        ...

    def stand_by(self, room: Room) -> Standby:
        """Start a process that joins the desk's cgroup and waits. Joining is slow, and the room is made meanwhile."""
        ...

    def prepare(self, room: Room) -> None:
        """Write the runtime's input once the room is complete; called again before each boot of the desk."""
        ...

    def find_guest(self, room: Room, status: int, *, root: bool = False) -> int:
        """Return the pid of the guest, or that for root, after the runtime exited; raise `StartError` if it failed."""
        ...

    def prove(self, room: Room, pid: int) -> None:
        """Raise `KeeperError` unless the desk's first process is behind every part of the wall."""
        ...

    def find_caller(self, room: Room, pid: int, *, root: bool = False) -> tuple[int, int]:
        """Return the pid and host user id from which the guest, or the guest for root, connects to its owner."""
        ...

    def enter(self, room: Room) -> int:
        """Start the guest for root in a desk that may have root; return the pid of the runtime that starts it."""
        ...

    def list_root_flaws(self, room: Room, pid: int, first: int) -> list[str]:
        """List the flaws of the wall around the guest for root; `first` is the desk's first process."""
        ...

    def save_memory(self, room: Room, *, stop: bool) -> MemoryWriter:
        """Start saving the desk's memory to its layer; with `stop` its programs do not run afterwards.

        Only called if `traits.can_keep_memory`. A desk with `room.memory` set is later started from it.
        """
        ...

    def explain_memory(self, room: Room) -> str:
        """Return why a desk's memory could not be saved."""
        ...

    def settle(self, room: Room, spec: Spec, pid: int) -> None:
        """Adapt a ready desk to the spec of its claim, before the room is adapted."""
        ...

    def dial(self, room: Room, port: int) -> socket.socket:
        """Return a socket to a port on the desk's loopback, connected or connecting; raise `OSError` if refused."""
        ...
