"""Reports callbacks that block the server's event loop: every tenant, stream and deadline has to wait for them.

For tests and for operators who look for a cause: with `HOTDESK_STALLS=50` each callback is reported that took more than
50 ms of its own. Waiting for a processor of a busy machine is not counted: neither this thread's, nor that of other
threads that may hold the interpreter's lock meanwhile, nor the time that the hypervisor took, nor time in which the
whole process stood still.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from types import FrameType
from typing import TypeAlias

from hotdesk.dataclass import dataclass

SWITCH = "HOTDESK_STALLS"
"""The variable with the limit in milliseconds; if it is empty or unset, nothing is watched."""
_LOOK_INTERVAL_S = 0.02
"""Seconds between two samples."""
_LOOKS = 8
_CONTENDED_S = 0.001
"""Seconds of waiting for a processor that show a busy machine, on which one sampling interval is subtracted."""
_STEAL = "steal"
_ACCOUNTING_S = 0.01
"""Seconds after which the kernel has accounted for what another thread ran: it does so at its next clock tick."""
FRAMES = 30
"""Innermost frames of a report."""

Tell: TypeAlias = Callable[["Stall"], None]


@dataclass(frozen=True, slots=True)
class Stall:
    """One callback that blocked the event loop for too long."""

    seconds: float
    """Seconds it took, without waiting for a processor."""
    cpu: float
    """Seconds of that in which it used a processor; in the rest it waited for something."""
    callback: str
    stack: str
    """The sampled stack, innermost frame last; empty if no sample was taken in time."""
    collected: float = 0.0
    """Seconds of that in which garbage was collected."""

    def __str__(self) -> str:
        waited = max(0.0, self.seconds - self.cpu)
        return (
            f"the event loop was blocked for {self.seconds * 1000:.0f} ms ({self.cpu * 1000:.0f} ms of CPU time, "
            f"{self.collected * 1000:.0f} ms of it garbage collection; {waited * 1000:.0f} ms of waiting) in "
            f"{self.callback}\n{self.stack}"
        )


class StallWatch:
    """Watches the callbacks of the event loop in the thread that created it."""

    def __init__(self, limit: float, tell: Tell) -> None:
        self.limit = limit
        self.tell = tell
        self.thread, self.name = threading.get_ident(), str(threading.get_native_id())
        self.own = os.open(f"/proc/self/task/{self.name}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self.begun = 0.0
        """When the running callback began; 0 if none runs."""
        self.last_stack: tuple[float, traceback.StackSummary | None] = (0.0, None)
        """The last sampled stack, and when its callback began."""
        self.looks: deque[tuple[float, dict[str, float]]] = deque([(0.0, measure_other_threads(self.name))], _LOOKS)
        """Times of other threads at the last samples without a slow callback."""
        self.collected = 0.0
        """Seconds in which garbage was collected in this thread."""
        self.collection_began = 0.0
        self.over = threading.Event()

    def run(self, work: Callable[[asyncio.Handle], None], handle: asyncio.Handle) -> None:
        if threading.get_ident() != self.thread or self.begun:
            work(handle)  # a callback of another loop, or a nested one
            return
        cpu, waited, collected = time.thread_time(), delay(self.own), self.collected
        begun = self.begun = time.monotonic()
        try:
            work(handle)
        finally:
            self.begun = 0.0
            if time.monotonic() - begun > self.limit and not self.over.is_set():
                delayed = delay(self.own) - waited
                elapsed = time.monotonic() - begun - delayed - (_LOOK_INTERVAL_S if delayed > _CONTENDED_S else 0.0)
                self.judge(begun, elapsed, time.thread_time() - cpu, self.collected - collected, handle)

    def note_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if threading.get_ident() == self.thread:
            if phase == "start":
                self.collection_began = time.thread_time()
            else:
                self.collected += time.thread_time() - self.collection_began

    def judge(self, begun: float, elapsed: float, cpu: float, collected: float, handle: asyncio.Handle) -> None:
        before = next((look for when, look in reversed(list(self.looks)) if when <= begun), self.looks[0][1])
        if cpu < self.limit:
            time.sleep(_ACCOUNTING_S)
        losses = {name: max(0.0, now - before.get(name, 0.0)) for name, now in measure_other_threads(self.name).items()}
        # Stolen time is contained in the times of threads that ran, but not in waits for something else.
        stolen = min(cpu, losses.pop(_STEAL, 0.0))
        cpu -= stolen
        seconds = max(cpu, elapsed - stolen - sum(losses.values()))
        seen_in, summary = self.last_stack
        stack = "".join(summary.format()) if summary is not None and seen_in == begun else ""
        # While a callback waits, another thread takes a sample. If it did not, the whole process stood still.
        if seconds > self.limit and (stack or cpu > self.limit):
            self.tell(Stall(seconds, cpu, repr(handle)[:300], stack, collected))

    def look(self) -> None:
        last = time.monotonic()
        while not self.over.wait(_LOOK_INTERVAL_S):
            begun, before, last = self.begun, last, time.monotonic()
            if not begun or time.monotonic() - begun < _LOOK_INTERVAL_S:
                self.looks.append((time.monotonic(), measure_other_threads(self.name)))
            elif last - before > _LOOK_INTERVAL_S + self.limit / 2:
                continue  # this thread did not run either: the callback may have waited for nothing
            elif self.last_stack[0] != begun and time.monotonic() - begun > self.limit / 2:
                summary = _summarize_stack(sys._current_frames().get(self.thread))
                # If this thread was interrupted since it woke, the callback may only have waited for it.
                if self.begun == begun and time.monotonic() - last < _LOOK_INTERVAL_S:
                    self.last_stack = (begun, summary)


def _summarize_stack(frame: FrameType | None) -> traceback.StackSummary | None:
    """Record a stack, innermost frame last.

    It makes no system call: each would give the interpreter's lock back to the callback, which may end meanwhile. So it
    does not use `StackSummary.extract`, which checks each source file; source lines are read for the report.
    """
    if frame is None:
        return None
    places = [
        traceback.FrameSummary(each.f_code.co_filename, line, each.f_code.co_name, lookup_line=False)
        for each, line in islice(traceback.walk_stack(frame), FRAMES)
    ]
    return traceback.StackSummary.from_list(reversed(places))


def delay(fd: int) -> float:
    """Return the seconds in which a thread was ready to run and had no processor."""
    return int(os.pread(fd, 100, 0).split()[1]) / 1e9


def measure_other_threads(but: str) -> dict[str, float]:
    """Return the seconds each other thread of this process ran or was ready to run, and those the hypervisor took."""
    try:
        with open("/proc/stat") as file:
            found = {_STEAL: int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")}
        names = os.listdir("/proc/self/task")
    except OSError:
        return {}  # too many files are open: the watch must not end the server
    for name in names:
        if name != but:
            try:
                with open(f"/proc/self/task/{name}/schedstat") as file:
                    ran, waited, _ = map(int, file.read().split())
                    found[name] = (ran + waited) / 1e9
            except (OSError, ValueError):
                continue  # it has ended
    return found


@contextmanager
def watch_loop(limit: float, tell: Tell) -> Iterator[StallWatch]:
    watch = StallWatch(limit, tell)
    looking = threading.Thread(target=watch.look, daemon=True, name="stalls")
    work = asyncio.Handle._run
    asyncio.Handle._run = lambda self: watch.run(work, self)  # type: ignore[method-assign]
    gc.callbacks.append(watch.note_collection)
    looking.start()
    try:
        yield watch
    finally:
        gc.callbacks.remove(watch.note_collection)
        asyncio.Handle._run = work  # type: ignore[method-assign]
        watch.over.set()
        looking.join()
        os.close(watch.own)


@contextmanager
def watch_if_enabled(switch: str | None = None) -> Iterator[None]:
    limit_ms = os.environ.get(SWITCH, "") if switch is None else switch
    if not limit_ms.isdecimal() or not int(limit_ms):
        yield
        return
    with watch_loop(int(limit_ms) / 1000, lambda stall: print(f"hotdesk: {stall}", file=sys.stderr, flush=True)):
        yield
