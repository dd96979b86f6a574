"""Snapshots that are being taken: in a thread each, as a desk decides how much there is to write out.

Meanwhile the desk is frozen and its disk is nobody else's; the keeper goes on, and deadlines hold.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from hotdesk.desk.keeper.operations import begin_freezing, goes_on, has_stopped, note_snapshots
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.tracked import TrackedDesk
from hotdesk.errors import DeskError, HotdeskError, KeeperError

STOPPING = 2.0
"""Seconds a desk may take to stop for a snapshot: longer than for a pause, as only a thread waits."""


@dataclass(frozen=True, slots=True)
class SnapshotOutcome:
    """How one went."""

    asked: int
    held: TrackedDesk
    running: bool
    """Whether the desk was frozen for it."""
    name: str
    failure: HotdeskError | None


class KeeperSnapshots:
    """What one keeper takes. `wake` is written to when one is done."""

    def __init__(self, desks: dict[str, TrackedDesk], owner: Teller, has_room: Callable[[], None]) -> None:
        self.desks = desks
        self.owner = owner
        self.has_room = has_room
        self.wake = -1
        self.taken: deque[SnapshotOutcome] = deque()

    def begin(self, number: int, held: TrackedDesk) -> None:
        """Freeze a desk and keep its files as they are; `turn` answers."""
        if held.down == "halting" or held.runtime:
            raise DeskError(f"desk {held.room.desk} is starting or stopping; try again")
        self.has_room()
        running = not held.paused and not held.down
        if running:
            begin_freezing(held)
        held.busy = True
        thread = threading.Thread(target=self.take, args=(number, held, running), daemon=True)
        try:
            thread.start()
        except RuntimeError as e:
            self.finish(SnapshotOutcome(number, held, running, "", KeeperError(f"no thread could be started: {e}")))

    def take(self, number: int, held: TrackedDesk, running: bool) -> None:
        """Keep the files; called in a thread."""
        name, failure = "", None
        try:
            if running and not has_stopped(held, STOPPING):
                raise goes_on(held, STOPPING)
            name = held.room.layers.snapshot()
        except HotdeskError as e:
            failure = e
        except OSError as e:
            failure = KeeperError(str(e))
        except Exception as e:  # noqa: BLE001 - a rim: nobody would hear of what ends a thread
            failure = KeeperError(f"the keeper failed at it: {e!r}")
        self.taken.append(SnapshotOutcome(number, held, running, name, failure))
        with suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self.wake, b"1")

    def turn(self) -> None:
        """Let desks go on whose snapshots are taken, and say so."""
        while self.taken:
            self.finish(self.taken.popleft())

    def finish(self, taken: SnapshotOutcome) -> None:
        """Let one desk go on, unless it is ending."""
        held = taken.held
        held.busy = False
        alive = self.desks.get(held.room.desk) is held
        failure = taken.failure
        if alive:
            try:
                if taken.running:
                    held.room.cgroup.freeze(False)
                note_snapshots(held)
            except OSError as e:
                failure = failure or KeeperError(str(e))
        if failure is not None:
            self.owner.refuse(taken.asked, failure)
        else:
            self.owner.send({"re": taken.asked, "ok": {"snapshot": taken.name}})


def require_idle(held: TrackedDesk) -> None:
    """Refuse what would meet a snapshot amid its taking."""
    if held.busy:
        raise DeskError(f"the files of desk {held.room.desk} are just being kept; try again")
