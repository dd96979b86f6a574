"""Root's guests, as the keeper holds them: started on first need, proven, and given up when they do not come."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from hotdesk.config import Config
from hotdesk.desk.keeper.tracked import RootGuest, TrackedDesk, now
from hotdesk.desk.wall.seam import PROOF_TIMEOUT_S, StartError
from hotdesk.errors import BriefError, DeskError, HotdeskError, KeeperError
from hotdesk.linux.processes import read_status

RISING = 20.0
"""Seconds the runtime may take to start one."""
RESTING = 1.0
"""Seconds until `sudo` may call for another after the last one ended."""
LOOK = 0.002
"""Seconds between two looks at one whose walls do not stand yet."""


class Teller(Protocol):
    """Who tells the owner."""

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Send a message with descriptors."""
        ...

    def refuse(self, number: int, error: HotdeskError) -> None:
        """Answer a request with what went wrong."""
        ...


class Roots:
    """The second guests of one keeper's desks."""

    def __init__(self, settings: Config, desks: dict[str, TrackedDesk], early: set[int], owner: Teller) -> None:
        self.settings = settings
        self.desks = desks
        self.early = early
        """Exits that were seen before their runtime's."""
        self.owner = owner

    def begin(self, number: int, held: TrackedDesk) -> None:
        """Start a desk's root; `prove` answers when its walls stand."""
        held.knocked = False
        desk = held.room.desk
        if held.room.sudo is None:
            raise BriefError(f"desk {desk} was opened without root; open one with `root`")
        if held.hushed:
            raise DeskError(f"a person holds the wheel of desk {desk}; try again when it is handed back")
        if held.paused or held.down:
            raise DeskError(f"desk {desk} is {held.down or 'paused'}; resume it first")
        if held.root is not None and not held.root.proven:
            held.root.asked = number  # whoever asked first was cancelled
            return
        if held.root is not None:  # its owner lost it: it no longer speaks as it should, or not at all
            strike(held)
            self.owner.send({"event": "rootless", "desk": desk})
        held.room.listener = held.room.admit_root()
        held.root = RootGuest(held.wall.enter(held.room), number, now() + RISING)

    def rising(self) -> Iterator[tuple[TrackedDesk, RootGuest]]:
        """Give the desks whose root was asked for and is not proven yet."""
        for held in list(self.desks.values()):
            if held.root is not None and not held.root.proven:
                yield held, held.root

    def patience(self) -> Iterator[float]:
        """Give seconds until something is due."""
        for _, root in self.rising():
            yield root.hard - now() if root.runtime else LOOK
        moment = now()
        for held in self.desks.values():
            if held.rest > moment and held.root is None:
                yield held.rest - moment

    def turn(self) -> None:
        """Look at those that were just started: one that never looks right must keep nobody waiting."""
        for held, root in self.rising():
            if root.init:
                self.prove(held, root)
            elif root.hard <= now():
                self.end(held, root, f"did not start within {RISING:.0f} s")

    def ended(self, held: TrackedDesk, pid: int, status: int) -> None:
        """Take an exit that may be of a desk's root, or of the runtime that starts it."""
        root = held.root
        if root is None:
            return
        if pid == root.runtime:
            self.started(held, root, status)
        elif pid == root.init and root.proven:
            self.lose(held)
            self.owner.send({"event": "rootless", "desk": held.room.desk})
        elif pid == root.init:
            self.end(held, root, "ended at once")

    def started(self, held: TrackedDesk, root: RootGuest, status: int) -> None:
        """Take the runtime's end; what it started must then be proven."""
        room, root.runtime = held.room, 0
        root.hard = now() + PROOF_TIMEOUT_S
        try:
            pid = held.wall.find_guest(room, status, root=True)
        except StartError as e:
            self.end(held, root, f"did not start: {e}")
            return
        if pid in self.early:
            self.end(held, root, "ended at once")
        else:
            root.init = pid

    def prove(self, held: TrackedDesk, root: RootGuest) -> None:
        """Give the owner what it needs to talk to a root whose walls stand."""
        room = held.room
        try:
            wrong = held.wall.root_flaws(room, root.init, held.init)
            wrong += [] if room.cgroup.holds(root.init) else ["it is not in its desk's cgroup"]
        except OSError:
            return  # it has ended, and its exit will be told
        if wrong and root.hard <= now():
            told = f"the wall around root does not stand in desk {room.desk}: {'; '.join(wrong)}"
            self.give_up(held, root, KeeperError(told))
        elif not wrong:
            assert room.listener is not None
            root.proven = True
            room.pin({root.init}, held.spec.cpus)
            reply = {"desk": room.desk, "pid": root.init, "uid": room.base}
            self.owner.send({"re": root.asked, "ok": reply}, room.listener.fileno())
            room.hang_up()

    def end(self, held: TrackedDesk, root: RootGuest, why: str) -> None:
        """Give up a root that its desk did not let come up."""
        self.give_up(held, root, DeskError(f"root's guest in desk {held.room.desk} {why}"))

    def give_up(self, held: TrackedDesk, root: RootGuest, error: HotdeskError) -> None:
        """End what was started of a root, and tell whoever asked."""
        strike(held)
        held.room.hang_up()
        self.lose(held)
        self.owner.refuse(root.asked, error)

    def lose(self, held: TrackedDesk) -> None:
        """Have a desk without its root; `sudo` is heard again after a rest."""
        held.root = None
        held.rest = now() + RESTING


def strike(held: TrackedDesk) -> None:
    """Kill a root's guest, and the runtime that starts it: the children of ours in a desk that are not its first.

    What is our child and was not reaped keeps its number, so nobody else can be meant.
    """
    with suppress(OSError):
        for pid in held.room.cgroup.pids() - {held.init}:
            with suppress(OSError):
                if read_status(pid).get("PPid") == str(os.getpid()):
                    os.kill(pid, signal.SIGKILL)
