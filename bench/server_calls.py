"""A sandbox's life call by call, by E2B's SDK: the time of each call, and the CPU time of the server's own processes.

Other work on the machine adds to the time of a call, but hardly to its CPU time, and the quietest quarter of many calls
has the least of it. So two versions can be compared on a busy machine, if their runs alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from bench.book import Book, percentile
from e2b import Sandbox

Result = TypeVar("Result")
CALLS = ("create", "run", "kill")
PROCESSES = ("server", "hotdesk-launche", "hotdesk-keeper", "hotdesk-keys", "hotdesk-door")
"""The server, and its processes by the names that the kernel shows, which have 15 characters."""
Used = dict[str, float]
"""CPU milliseconds since its start, by process."""


def quiet(call: str) -> str:
    """Return the name of the time of a call while other work disturbs it least."""
    return f"E2B: {call}, quietest quarter, in ms"


def spent(call: str, process: str) -> str:
    """Return the name of the CPU time of a process until a call is answered."""
    return f"E2B: {call}, CPU of {process}, in ms"


class Calls:
    """The calls that were measured."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        """The server."""
        self.times: dict[str, list[float]] = {call: [] for call in CALLS}
        self.used: dict[str, list[Used]] = {call: [] for call in CALLS}

    def live(self, options: dict[str, object]) -> None:
        """Create a sandbox, use it, and kill it; measure each call."""
        sandbox = self.measure("create", lambda: Sandbox.create(**options))  # type: ignore[arg-type]
        self.measure("run", lambda: sandbox.commands.run("true"))
        self.measure("kill", sandbox.kill)

    def measure(self, call: str, work: Callable[[], Result]) -> Result:
        before, start = use_of(self.pid), time.perf_counter()
        result = work()
        self.times[call].append(1e3 * (time.perf_counter() - start))
        after = use_of(self.pid)
        self.used[call].append({name: after[name] - before.get(name, 0.0) for name in after})
        return result

    def write(self, book: Book) -> None:
        for call in CALLS:
            book.facts[quiet(call)] = percentile(self.times[call], 0.25)
            for process in PROCESSES:
                amounts = [each.get(process, 0.0) for each in self.used[call]]
                book.facts[spent(call, process)] = statistics.median(amounts)


def use_of(server: int) -> Used:
    """Return the CPU time of a server and its own processes, without its desks'."""
    used: Used = {}
    for pid in family_of(server):
        with suppress(OSError):  # it has ended
            name = "server" if pid == server else Path(f"/proc/{pid}/comm").read_text().strip()
            used[name] = used.get(name, 0.0) + cpu_of(pid)
    return {name: amount for name, amount in used.items() if name in PROCESSES}


def family_of(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from family_of(int(child))


def cpu_of(pid: int) -> float:
    """Return the CPU milliseconds of all threads of a process: the scheduler's own count, not in ticks."""
    return sum(int((each / "schedstat").read_text().split()[0]) for each in Path(f"/proc/{pid}/task").iterdir()) / 1e6
