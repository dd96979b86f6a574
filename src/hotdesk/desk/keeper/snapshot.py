"""Take snapshots, each in a thread, because the desk determines how much data must be written.

Meanwhile the desk is frozen and no other operation uses its disk. The keeper's loop continues, and deadlines hold.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper.burn import describe
from hotdesk.desk.keeper.operations import begin_freezing, has_stopped, make_not_stopped_error, note_snapshots
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.errors import DeskError, HotdeskError, KeeperError

STOP_TIMEOUT_S = 2.0
"""Seconds a desk may take to freeze for a snapshot: longer than for a pause, as only a thread waits."""


@dataclass(frozen=True, slots=True)
class SnapshotOutcome:
    """The result of a snapshot."""

    number: int
    tracked: TrackedDesk
    running: bool
    """Whether the desk was running, and was frozen for it."""
    name: str
    failure: HotdeskError | None


class KeeperSnapshots:
    """The snapshots of one keeper. A byte is written to `wake` when one is done."""

    def __init__(self, desks: dict[str, TrackedDesk], owner: Teller, has_room: Callable[[], None]) -> None:
        self.desks = desks
        self.owner = owner
        self.has_room = has_room
        self.wake = -1
        self.outcomes: deque[SnapshotOutcome] = deque()

    def begin(self, number: int, tracked: TrackedDesk) -> None:
        """Start freezing a desk and take a snapshot in a thread; `turn` answers the request."""
        if tracked.down == "halting" or tracked.runtime:
            raise DeskError(f"desk {tracked.room.desk} is starting or stopping; try again")
        self.has_room()
        running = not tracked.paused and not tracked.down
        if running:
            begin_freezing(tracked)
        tracked.busy = True
        thread = threading.Thread(target=self.take, args=(number, tracked, running), daemon=True)
        try:
            thread.start()
        except RuntimeError as e:
            self.finish(
                SnapshotOutcome(
                    number, tracked, running, "", KeeperError(f"no thread could be started for the snapshot: {e}")
                )
            )

    def take(self, number: int, tracked: TrackedDesk, running: bool) -> None:
        """Runs in a thread."""
        name, failure = "", None
        try:
            if running and not has_stopped(tracked, STOP_TIMEOUT_S):
                raise make_not_stopped_error(tracked, STOP_TIMEOUT_S)
            name = tracked.room.layers.snapshot()
        except HotdeskError as e:
            failure = e
        except OSError as e:
            failure = KeeperError(str(e))
        except Exception as e:  # noqa: BLE001 - outer boundary: an error that ends a thread would go unnoticed
            failure = KeeperError(f"internal error of the keeper: {e!r}")
        self.outcomes.append(SnapshotOutcome(number, tracked, running, name, failure))
        with suppress(BlockingIOError):  # a full pipe wakes the reader as well
            os.write(self.wake, b"1")

    def turn(self) -> None:
        while self.outcomes:
            self.finish(self.outcomes.popleft())

    def finish(self, outcome: SnapshotOutcome) -> None:
        tracked = outcome.tracked
        tracked.busy = False
        alive = self.desks.get(tracked.room.desk) is tracked
        failure = outcome.failure
        if alive:
            try:
                if outcome.running:
                    tracked.room.cgroup.freeze(False)
                note_snapshots(tracked)
            except Exception as e:  # noqa: BLE001 - outer boundary: one desk must not end the others
                failure = failure or KeeperError(describe(e))
        if failure is not None:
            self.owner.refuse(outcome.number, failure)
        else:
            self.owner.send({"re": outcome.number, "ok": {"snapshot": outcome.name}})


def require_idle(tracked: TrackedDesk) -> None:
    if tracked.busy:
        raise DeskError(f"another snapshot of desk {tracked.room.desk} is being taken; try again")
