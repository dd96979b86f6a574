"""Burn desks step by step: kill processes, remove files, release ids. A desk that resists does not block others.

An error in handling one desk ends this desk, not the keeper and all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field

from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import state
from hotdesk.desk.keeper.tracked import TrackedDesk, read_clock
from hotdesk.errors import HotdeskError, KeeperError
from hotdesk.linux import uids
from hotdesk.linux.pace import scale_seconds

MIN_POLL_INTERVAL_S, MAX_POLL_INTERVAL_S = 0.001, 0.05
"""Minimum and maximum seconds between two steps of a burning desk."""
STUCK_AFTER_S = 5.0
"""Seconds until a desk is reported as stuck."""
RETRY_INTERVAL_S = 2.0
"""Seconds between two attempts at a stuck desk."""
TURN_S = 0.005
"""Seconds one turn may take, so that a hundred desks burning at once do not delay opening others."""

_MAX_REASON = 2000
"""Maximum characters of a reason: the `repr` of an error can hold all of what could not be read."""

Ended = Callable[["Fire", list[str]], None]
Burn = Callable[[str, str], None]
"""Ends a desk, by its id, for a reason."""


@dataclass(slots=True)
class Fire:
    """A desk that is burning."""

    tracked: TrackedDesk
    why: str
    since: float
    look: float
    pause: float = MIN_POLL_INTERVAL_S
    numbers: list[int] = field(default_factory=list)
    """Numbers of the requests that wait for its end."""
    children: set[int] = field(default_factory=set)
    """Its processes that the keeper must reap: a zombie still has the desk's user id."""
    stuck: bool = False


class Burning:
    """All burning desks. `ended` is called when one is gone, and when one is stuck."""

    def __init__(self, settings: Config, ended: Ended) -> None:
        self.settings = settings
        self.ended = ended
        self.fires: dict[str, Fire] = {}

    def begin(self, tracked: TrackedDesk, why: str, number: int | None = None) -> None:
        fire = Fire(
            tracked,
            why,
            read_clock(),
            read_clock(),
            numbers=[] if number is None else [number],
            children=tracked.list_children(),
        )
        self.fires[tracked.room.desk] = fire
        self.advance(fire)

    def wait_for(self, desk: str, number: int) -> bool:
        """Let a request wait until a desk is gone; return False if the desk is not burning, or is stuck."""
        fire = self.fires.get(desk)
        if fire is None or fire.stuck:
            return False
        fire.numbers.append(number)
        return True

    def note_exit(self, pid: int) -> None:
        """Schedule the next step at once for the desk whose process has just exited."""
        for fire in self.fires.values():
            if pid in fire.children:
                fire.children.discard(pid)
                fire.look = read_clock()

    def compute_wait(self) -> float | None:
        """Return seconds until the next step, or `None` if no desk is burning."""
        return max(0.0, min(fire.look for fire in self.fires.values()) - read_clock()) if self.fires else None

    def turn(self) -> None:
        """Take the steps that are due, the most overdue first, within the time of a turn."""
        start = read_clock()
        due = [fire for fire in self.fires.values() if fire.look <= start]
        for fire in sorted(due, key=lambda fire: fire.look):
            self.advance(fire)
            if read_clock() - start > TURN_S:
                return

    def advance(self, fire: Fire) -> None:
        """Take one more step. A desk that resists too long is reported, and tried again at intervals."""
        leftovers = self.clear(fire)
        if not leftovers:
            del self.fires[fire.tracked.room.desk]
            if not fire.stuck:
                self.ended(fire, leftovers)
            return
        fire.pause = min(fire.pause * 1.5, MAX_POLL_INTERVAL_S) if not fire.stuck else RETRY_INTERVAL_S
        fire.look = read_clock() + fire.pause
        if fire.pause == MAX_POLL_INTERVAL_S:
            self.note(fire, "burning", leftovers)
        if not fire.stuck and read_clock() - fire.since > scale_seconds(STUCK_AFTER_S):
            fire.stuck = True
            self.note(fire, "stuck", leftovers)
            self.ended(fire, leftovers)

    def note(self, fire: Fire, condition: str, leftovers: list[str]) -> None:
        with suppress(OSError):
            fire.tracked.record.note(state=condition, why=fire.why, left=leftovers)

    def clear(self, fire: Fire) -> list[str]:
        """Kill a desk's processes and remove everything it has; return what remains."""
        tracked = fire.tracked
        try:
            if pids := tracked.room.cgroup.strike() | fire.children:
                return [f"processes {sorted(pids)[:20]} could not be killed"]
            if tracked.busy:
                return ["a snapshot of the desk is still being taken"]
            leftovers = state.clear_runtime(self.settings, tracked.room.desk) + tracked.room.clear()
            if not leftovers:
                tracked.record.leave()
                uids.release(tracked.room.base, tracked.record.folder)
        except Exception as e:  # noqa: BLE001 - outer boundary: a desk that cannot be removed must not end the others
            return [describe(e)]
        return leftovers


@contextmanager
def contain(desk: str, burn: Burn, answer: Callable[[KeeperError], None] = lambda error: None) -> Iterator[None]:
    """Burn a desk if the block fails, after answering the request that waits for it."""
    try:
        yield
    except Exception as e:  # noqa: BLE001 - outer boundary: one desk must not end the others
        why = describe(e)
        answer(KeeperError(why))
        burn(desk, why)


def describe(error: Exception) -> str:
    if isinstance(error, HotdeskError | OSError):
        return str(error)[:_MAX_REASON]
    return f"internal error of the keeper: {error!r}"[:_MAX_REASON]
