"""A desk as its keeper tracks it, and when it must end."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import state
from hotdesk.desk.room.room import Room
from hotdesk.desk.seam import Spec
from hotdesk.desk.wall.seam import Wall
from hotdesk.walls import WallProof


@dataclass(slots=True)
class RootGuest:
    """A desk's second guest, which runs as root in the desk."""

    runtime: int
    """Pid of the runtime while it starts the guest, else 0."""
    number: int
    """The number of the request that is waiting for it."""
    hard: float
    """The time by which it must be up and its wall proven."""
    init: int = 0
    proven: bool = False
    """Whether its wall was proven, and its owner notified."""


@dataclass(slots=True)
class TrackedDesk:
    """A desk, from its first mount to its last."""

    wall: Wall
    room: Room
    record: state.DeskRecord
    spec: Spec
    runtime: int
    """Pid of the runtime while it starts the desk, else 0."""
    console: int
    """Read end of the desk's standard output; passed to the owner, which may read it if a start fails."""
    number: int
    """The number of the request that is waiting for it."""
    hard: float
    """Its deadline; while it starts, the time by which it must be up."""
    touched: float
    ends: float = math.inf
    """Its deadline regardless of restarts; infinite until it was up once."""
    init: int = 0
    proof: WallProof | None = None
    """The facts checked about its wall before it was handed over."""
    paused: bool = False
    suspended: bool = False
    """Whether all but its screen, window manager and browser are frozen, because a person has control."""
    look: float = 0.0
    """When a suspended desk is checked next for new processes."""
    spare: bool = False
    """Whether it is a ready desk of the pool that was not claimed yet."""
    scoped: bool = False
    """Whether it has egress: keys then record its opening."""
    noted: bool = False
    """Whether its opening is in the journal's outbox, so that its end goes there, too."""
    busy: bool = False
    """Whether a snapshot of it is being taken."""
    down: Literal["", "halting", "halted", "hibernating", "hibernated"] = ""
    """Whether its processes were ended or are being ended while its disk is kept; `hibernated`: with its memory."""
    is_unwanted: bool = False
    """Whether it was burnt by request or deadline: a save in progress is then discarded."""
    root: RootGuest | None = None
    knocked: bool = False
    """Whether the owner was notified of a call by `sudo`."""
    rest: float = 0.0
    """When `sudo` is answered again after its guest ended: frequent ends must not keep the keeper busy."""

    def compute_due_time(self) -> tuple[float, str]:
        """Return when the desk must burn, and why. A paused or starting desk is not idle."""
        idle = self.touched + self.spec.idle
        never_idle = self.paused or self.suspended or self.down or self.spare or self.runtime
        return (self.hard, "deadline") if self.hard <= idle or never_idle else (idle, "idle")

    def is_starting(self) -> bool:
        return bool(self.runtime or (self.root is not None and self.root.runtime))

    def list_children(self) -> set[int]:
        root = (self.root.runtime, self.root.init) if self.root is not None else ()
        return {pid for pid in (self.runtime, self.init, *root) if pid}

    def explain_exit(self) -> str:
        with suppress(OSError):
            if self.room.cgroup.count_oom_kills() > 0:
                return "out of memory"
            if not self.wall.traits.survives_exhaustion and self.room.cgroup.count_refused_forks() > 0:
                return "out of processes"
        return "its first process ended"

    def find_knock_socket(self) -> int | None:
        if self.room.sudo is None or self.knocked or self.root is not None:
            return None
        if self.runtime or self.paused or self.suspended or self.down or self.rest > read_clock():
            return None
        return self.room.sudo.fileno()


def read_clock() -> float:
    """Return seconds of a clock that cannot be set and that includes suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
