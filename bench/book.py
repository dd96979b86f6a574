"""What a run found: samples by round, single facts, and what could not be measured, with the reason."""

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
    """Takes down what is measured. Rounds are kept apart, because a ratio compares what ran side by side."""

    rounds: dict[str, dict[int, list[float]]] = field(default_factory=dict)
    """Samples by name and round: seconds, unless the name says otherwise."""
    facts: dict[str, float] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    """What was not measured, and why."""

    def note(self, name: str, number: int, *values: float) -> None:
        """Take samples of one round down."""
        self.rounds.setdefault(name, {}).setdefault(number, []).extend(values)

    def lack(self, names: Iterable[str], why: object) -> None:
        """Take down why something was not measured."""
        self.lacking.update(dict.fromkeys(names, " ".join(str(why).split())[:160]))

    def samples(self, name: str) -> list[float]:
        """Give all samples of a name."""
        return [value for values in self.rounds.get(name, {}).values() for value in values]

    def ratio(self, one: str, other: str) -> float | None:
        """Give the median of the rounds' ratios, each of the round's medians."""
        ours, theirs = self.rounds.get(one, {}), self.rounds.get(other, {})
        found = [statistics.median(ours[each]) / statistics.median(theirs[each]) for each in ours if each in theirs]
        return statistics.median(found) if found else None


def percentile(values: Sequence[float], share: float) -> float:
    """Give the smallest sample that at least this share of all samples does not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Time one piece of async work."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


def seconds(argv: list[str]) -> float:
    """Time one program from start to end."""
    start = time.perf_counter()
    done = subprocess.run(argv, check=False, input=b"", capture_output=True)  # pipes: crun 1.8 gives fds 0-2 away
    took = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError(
            f"{argv[0]} ended with exit code {done.returncode}: {done.stderr[-300:].decode(errors='replace')}"
        )
    return took


def plainly(argv: list[str]) -> float:
    """Time `subprocess.run` as it comes, for a program that needs no streams of its own."""
    start = time.perf_counter()
    subprocess.run(argv, check=True)
    return time.perf_counter() - start


def busy_seconds() -> float:
    """Give the processor time the whole machine has spent working since it started, the kernel's own included."""
    user, nice, system, _idle, _wait, irq, soft = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + irq + soft) / 100  # USER_HZ is 100 wherever Linux tells it


def memory_of(pid: int) -> int:
    """Give the bytes a process shares with nobody."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_"))


def available_memory() -> int:
    """Give the bytes the machine could still hand out."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) << 10
