"""Guests for root, as the keeper manages them: started on first use, proven, and killed if they fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from hotdesk.config import Config
from hotdesk.desk.keeper.burn import Burn, contain
from hotdesk.desk.keeper.tracked import RootGuest, TrackedDesk, read_clock
from hotdesk.desk.wall.seam import PROOF_TIMEOUT_S, StartError
from hotdesk.errors import BriefError, DeskError, HotdeskError, KeeperError
from hotdesk.linux.pace import scale_seconds
from hotdesk.linux.processes import read_status

START_TIMEOUT_S = 20.0
"""Seconds the runtime may take to start a guest."""
RESTART_INTERVAL_S = 1.0
"""Seconds after a guest ended until `sudo` may start another."""
POLL_INTERVAL_S = 0.002
"""Seconds between two checks of a guest whose wall is not complete yet."""


class Teller(Protocol):
    """Sends messages to the owner."""

    def send(self, message: dict[str, object], *fds: int) -> None:
        """Send a message with file descriptors."""
        ...

    def refuse(self, number: int, error: HotdeskError) -> None:
        """Answer a request with an error."""
        ...


class Roots:
    """The guests for root of one keeper's desks."""

    def __init__(
        self, settings: Config, desks: dict[str, TrackedDesk], early: set[int], owner: Teller, burn: Burn
    ) -> None:
        self.settings = settings
        self.desks = desks
        self.early = early
        """Pids that exited before their runtime did."""
        self.owner = owner
        self.burn = burn

    def begin(self, number: int, tracked: TrackedDesk) -> None:
        """Start a desk's guest for root; `prove` answers when its wall is complete."""
        tracked.knocked = False
        desk = tracked.room.desk
        if tracked.room.sudo is None:
            raise BriefError(f"desk {desk} was opened without root; open a desk with root (`--root`)")
        if tracked.suspended:
            raise DeskError(f"a person has control of desk {desk}; try again after they hand it back")
        if tracked.paused or tracked.down:
            raise DeskError(f"desk {desk} is {tracked.down or 'paused'}; resume it first")
        if tracked.root is not None and not tracked.root.proven:
            tracked.root.number = number  # the first caller was cancelled
            return
        if tracked.root is not None:  # its owner lost the connection to it: it is broken or misbehaves
            strike(tracked)
            self.owner.send({"event": "rootless", "desk": desk})
        tracked.room.listener = tracked.room.admit_root()
        tracked.root = RootGuest(
            tracked.wall.enter(tracked.room), number, read_clock() + scale_seconds(START_TIMEOUT_S)
        )

    def iterate_rising(self) -> Iterator[tuple[TrackedDesk, RootGuest]]:
        for tracked in list(self.desks.values()):
            if tracked.root is not None and not tracked.root.proven:
                yield tracked, tracked.root

    def iterate_waits(self) -> Iterator[float]:
        for _, root in self.iterate_rising():
            yield root.hard - read_clock() if root.runtime else POLL_INTERVAL_S
        moment = read_clock()
        for tracked in self.desks.values():
            if tracked.rest > moment and tracked.root is None:
                yield tracked.rest - moment

    def turn(self) -> None:
        """Check the guests that were just started; one that never passes must not block others."""
        for tracked, root in self.iterate_rising():
            with contain(tracked.room.desk, self.burn):
                self.check(tracked, root)

    def check(self, tracked: TrackedDesk, root: RootGuest) -> None:
        if root.init:
            self.prove(tracked, root)
        elif root.hard <= read_clock():
            self.end(tracked, root, f"did not start within {scale_seconds(START_TIMEOUT_S):.0f} s")

    def note_exit(self, tracked: TrackedDesk, pid: int, status: int) -> None:
        root = tracked.root
        if root is None:
            return
        if pid == root.runtime:
            self.note_runtime_exit(tracked, root, status)
        elif pid == root.init and root.proven:
            self.lose(tracked)
            self.owner.send({"event": "rootless", "desk": tracked.room.desk})
        elif pid == root.init:
            self.end(tracked, root, "ended at once")

    def note_runtime_exit(self, tracked: TrackedDesk, root: RootGuest, status: int) -> None:
        """Handle the runtime's exit; the guest it started must then be proven."""
        room, root.runtime = tracked.room, 0
        root.hard = read_clock() + scale_seconds(PROOF_TIMEOUT_S)
        try:
            pid = tracked.wall.find_guest(room, status, root=True)
        except StartError as e:
            self.end(tracked, root, f"did not start: {e}")
            return
        if pid in self.early:
            self.end(tracked, root, "ended at once")
        else:
            root.init = pid

    def prove(self, tracked: TrackedDesk, root: RootGuest) -> None:
        room = tracked.room
        try:
            wrong = tracked.wall.list_root_flaws(room, root.init, tracked.init)
            wrong += [] if room.cgroup.holds(root.init) else ["its process is not in the cgroup of the desk"]
            caller, uid = (0, 0) if wrong else tracked.wall.find_caller(room, root.init, root=True)
        except OSError:
            return  # it has ended, and its exit will be reported
        except KeeperError as e:
            self.give_up(tracked, root, e)
            return
        if wrong and root.hard <= read_clock():
            why = f"the wall around programs of root failed its test in desk {room.desk}: {'; '.join(wrong)}"
            self.give_up(tracked, root, KeeperError(why))
        elif not wrong:
            assert room.listener is not None
            root.proven = True
            room.drop_knocks()
            room.pin({root.init}, tracked.spec.cpus)
            reply = {
                "desk": room.desk,
                "pid": root.init,
                "caller": caller,
                "uid": uid,
                "start_seconds": tracked.wall.traits.start_seconds,
            }
            self.owner.send({"re": root.number, "ok": reply}, room.listener.fileno())
            room.hang_up()

    def end(self, tracked: TrackedDesk, root: RootGuest, why: str) -> None:
        self.give_up(tracked, root, DeskError(f"the process for root in desk {tracked.room.desk} {why}"))

    def give_up(self, tracked: TrackedDesk, root: RootGuest, error: HotdeskError) -> None:
        strike(tracked)
        tracked.room.hang_up()
        self.lose(tracked)
        self.owner.refuse(root.number, error)

    def lose(self, tracked: TrackedDesk) -> None:
        """Forget a desk's guest for root; `sudo` is answered again after a pause."""
        tracked.root = None
        tracked.rest = read_clock() + RESTART_INTERVAL_S


def strike(tracked: TrackedDesk) -> None:
    """Kill the guest for root and its runtime: all children of the keeper in the desk, except the first process.

    A child that was not reaped keeps its pid, so no other process can be hit.
    """
    with suppress(OSError):
        for pid in tracked.room.cgroup.list_pids() - {tracked.init}:
            with suppress(OSError):
                if read_status(pid).get("PPid") == str(os.getpid()):
                    os.kill(pid, signal.SIGKILL)
