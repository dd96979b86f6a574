"""Choose the CPUs a desk runs on: as many as its limit, so that programs see that number.

The actual limit is the cgroup's quota. A program may widen its own affinity, but gains no CPU time from it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress

HOST = tuple(sorted(os.sched_getaffinity(0)))
"""The CPUs this process could use when this module was loaded."""
_PASSES = 4
"""Times the threads of a process are listed; threads started meanwhile inherit the CPUs of their creator."""


def count(cpus: float, host: tuple[int, ...] = HOST) -> int:
    """Return how many CPUs a desk sees: its limit rounded up, at most those of the machine."""
    return max(1, min(math.ceil(cpus), len(host)))


def choose(cpus: float, slot: int, host: tuple[int, ...] = HOST) -> frozenset[int]:
    """Return the CPUs of a desk; desks in consecutive slots get consecutive CPUs, so that all are used."""
    width = count(cpus, host)
    return frozenset(host[(slot * width + number) % len(host)] for number in range(width))


def pin(pids: Iterable[int], chosen: frozenset[int]) -> None:
    """Pin every thread of these processes to the chosen CPUs. A process that has ended is no error."""
    for pid in pids:
        for _ in range(_PASSES):
            with suppress(OSError):
                changed = [tid for tid in map(int, os.listdir(f"/proc/{pid}/task")) if move(tid, chosen)]
                if changed:
                    continue
            break


def move(tid: int, chosen: frozenset[int]) -> bool:
    """Pin one thread; return False if it was pinned already, or is gone."""
    with suppress(OSError):
        if os.sched_getaffinity(tid) != chosen:
            os.sched_setaffinity(tid, chosen)
            return True
    return False
