"""The results of a run: samples by round, single facts, and what could not be measured, with the reason."""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Book:
    """Records measurements. Rounds are separate, because a ratio compares samples taken in the same round."""

    rounds: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    """Samples by name and round: seconds, unless the name says otherwise."""
    facts: dict[str, float] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    """Names that were not measured, and why."""

    def note(self, name: str, number: int, *values: float) -> None:
        self.rounds.setdefault(name, {}).setdefault(number, []).extend(values)

    def lack(self, names: Iterable[str], why: object) -> None:
        """Record why these names were not measured."""
        self.lacking.update(dict.fromkeys(names, " ".join(str(why).split())[:160]))

    def samples(self, name: str) -> list[float]:
        return [value for values in self.rounds.get(name, {}).values() for value in values]

    def ratio(self, one: str, other: str) -> float | None:
        """Return the median over all rounds of the ratio of both medians; None if one was not measured."""
        ours, theirs = self.rounds.get(one, {}), self.rounds.get(other, {})
        found = [statistics.median(ours[each]) / statistics.median(theirs[each]) for each in ours if each in theirs]
        return statistics.median(found) if found else None


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least this share of all samples does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds that one call takes."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def seconds(argv: list[str]) -> float:
    """Return the seconds that a program takes from start to end."""
    start = time.perf_counter()
    done = subprocess.run(argv, check=False, input=b"", capture_output=True)  # pipes: crun 1.8 gives fds 0-2 away
    took = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(
            f"{argv[0]} ended with exit code {done.returncode}: {done.stderr[-300:].decode(errors='replace')}"
        )
    return took


def plainly(argv: list[str]) -> float:
    """Return the seconds of plain `subprocess.run`, for a program that needs no streams of its own."""
    start = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - start


def busy_seconds() -> float:
    """Return the seconds of processor time that the whole machine, with its kernel, has worked since it started."""
    user, nice, system, _idle, _wait, irq, soft = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + irq + soft) / 100  # USER_HZ is 100 on every Linux


def memory_of(pid: int) -> int:
    """Return the bytes of memory that a process does not share."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_"))


def available_memory() -> int:
    """Return the bytes of memory available on this machine."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10
