"""Halt desks, keeping their disks, and start them again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from hotdesk.desk.keeper.burn import STUCK_AFTER_S, Burn, contain
from hotdesk.desk.keeper.hibernated import HibernatedDesks
from hotdesk.desk.keeper.open import Opening
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.errors import DeskError
from hotdesk.linux.pace import scale_seconds

POLL_INTERVAL_S = 0.001
"""Seconds between two checks of a desk whose processes are ending."""


class Reboots:
    """The halts and boots of one keeper."""

    def __init__(
        self,
        desks: dict[str, TrackedDesk],
        opening: Opening,
        owner: Teller,
        burn: Burn,
        hibernated: HibernatedDesks,
    ) -> None:
        self.hibernated = hibernated
        self.desks = desks
        self.opening = opening
        self.owner = owner
        self.burn = burn

    def halt(self, number: int, tracked: TrackedDesk, snapshot: str) -> None:
        """Start ending all of a desk's processes, if it has the snapshot; the request is answered when none is left."""
        if snapshot:
            tracked.room.layers.find(snapshot)
        if tracked.down == "hibernated":
            self.hibernated.forget(tracked.room.desk)
            tracked.room.layers.drop_memory()
            tracked.down = "halted"
            tracked.record.note(state="halted")
        if tracked.down == "halted":
            self.owner.send({"re": number, "ok": {}})
            return
        if tracked.runtime or tracked.down:
            raise DeskError(f"desk {tracked.room.desk} is starting or stopping; try again")
        tracked.down, tracked.number, tracked.paused, tracked.suspended = "halting", number, False, False
        tracked.hard = min(tracked.ends, read_clock() + scale_seconds(STUCK_AFTER_S))
        tracked.record.note(state="halting")
        self.advance(tracked)

    def boot(self, number: int, tracked: TrackedDesk, snapshot: str) -> None:
        """Start a halted desk with its disk, or with a snapshot of it. A failure burns the desk."""
        desk, layers = tracked.room.desk, tracked.room.layers
        if tracked.down == "hibernated" and not snapshot:
            tracked.room.memory = True
        elif tracked.down != "halted":
            raise DeskError(f"desk {desk} cannot be started again: it is still running")
        source = layers.find(snapshot) if snapshot else None
        try:
            if source:
                layers.roll_back(source, tracked.spec.disk)
            self.opening.begin_again(number, tracked)
        except BaseException:
            self.burn(desk, "it could not be started again")
            raise

    def iterate_halting(self) -> Iterator[TrackedDesk]:
        return (tracked for tracked in list(self.desks.values()) if tracked.down == "halting")

    def iterate_waits(self) -> Iterator[float]:
        return (POLL_INTERVAL_S for _ in self.iterate_halting())

    def turn(self) -> None:
        for tracked in self.iterate_halting():
            with contain(tracked.room.desk, self.burn):
                self.advance(tracked)

    def advance(self, tracked: TrackedDesk) -> None:
        """Kill the remaining processes; once none is left, answer. A desk that resists is burnt when its time is up."""
        if tracked.room.cgroup.strike() or tracked.list_children():
            return
        tracked.down, tracked.hard = "halted", tracked.ends
        with suppress(OSError):
            tracked.record.note(state="halted")
        self.owner.send({"re": tracked.number, "ok": {}})
