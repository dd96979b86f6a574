"""The number of items in progress at once, adapted to processors, memory and the provider's limits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

import anyio

from hotdesk.config import MIB
from hotdesk.dataclass import dataclass

LEAST = 1
MOST = 512
_INTERVAL_S = 1.0
_BUSY_IDLE_SHARE = 0.10
"""Share of idle processor time below which the limit is not raised: more desks would only wait for each other."""
_LOW_MEMORY = 0.12
"""Share of available memory below which fewer items are started."""
_DESK_BYTES = 48 * MIB
"""The least memory of a desk in use, in bytes."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The free capacity of a machine."""

    idle: float
    """The share of processor time that was idle."""
    available: int
    """Bytes of available memory."""
    total: int


def choose_limit(limit: int, running: int, load: MachineLoad, most: int) -> int:
    """Return how many items may be in progress from now on. Pure.

    Raise the limit by a quarter when processors are idle and every place is used; halve it when memory is short.
    """
    if load.available < _LOW_MEMORY * load.total:
        return max(LEAST, limit // 2)
    room = int((load.available - _LOW_MEMORY * load.total) // _DESK_BYTES)
    if load.idle > _BUSY_IDLE_SHARE and running >= limit:
        limit += max(1, limit // 4)
    return max(LEAST, min(limit, most, running + room))


class LoadReader:
    """Reads this machine's free capacity from /proc."""

    def __init__(self) -> None:
        self.before = self._read_ticks()

    def read(self) -> MachineLoad:
        ticks, before = self._read_ticks(), self.before
        self.before = ticks
        spent = max(1, ticks[1] - before[1])
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        total, available = (int(fields[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
        return MachineLoad((ticks[0] - before[0]) / spent, available, total)

    def _read_ticks(self) -> tuple[int, int]:
        numbers = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return numbers[3] + numbers[4], sum(numbers)


@dataclass(slots=True)
class Pace:
    """Admits items up to a limit that changes while they run."""

    most: int = MOST
    limit: int = field(default_factory=lambda: 2 * (os.cpu_count() or 1) + 1)
    running: int = 0
    load: Callable[[], MachineLoad] = field(default_factory=lambda: LoadReader().read)
    changed: anyio.Event = field(default_factory=anyio.Event)
    resting_until: float = 0.0
    """Monotonic time before which no item starts, because a provider refused requests."""

    def __post_init__(self) -> None:
        self.limit = max(LEAST, min(self.limit, self.most))

    async def enter(self) -> None:
        """Wait until another item may start."""
        while self.running >= self.limit or time.monotonic() < self.resting_until:
            with anyio.move_on_after(_INTERVAL_S):
                await self.changed.wait()
        self.running += 1

    def leave(self) -> None:
        self.running -= 1
        self.wake()

    def slow_down(self, seconds: float = 5.0) -> None:
        """Halve the limit and pause new items, because a provider refused requests."""
        self.limit = max(LEAST, self.limit // 2)
        self.resting_until = time.monotonic() + seconds

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def run(self) -> None:
        """Adapt the limit to the machine's load until cancelled."""
        while True:
            await anyio.sleep(_INTERVAL_S)
            self.limit = choose_limit(self.limit, self.running, self.load(), self.most)
            self.wake()
