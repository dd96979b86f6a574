"""Tests of stall detection: callbacks that block the event loop are reported, and nothing else."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from hotdesk.api.http import stalls
from hotdesk.api.http.stalls import Stall, watch_loop

pytestmark = pytest.mark.anyio
LIMIT = 0.05


def compute(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@contextmanager
def busy(count: int) -> Iterator[None]:
    line = "import time\nend = time.monotonic() + 60\nwhile time.monotonic() < end: pass"
    crowd = [subprocess.Popen([sys.executable, "-c", line]) for _ in range(count)]
    try:
        yield
    finally:
        for each in crowd:
            each.kill()
            each.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "name"),
    [
        pytest.param(lambda: time.sleep(0.4), "sleep", id="waiting"),
        pytest.param(lambda: compute(0.4), "compute", id="computing"),
        pytest.param(lambda: threading.Event().wait(0.4), "wait", id="a lock"),
        pytest.param(lambda: subprocess.run(["sleep", "0.4"], check=True), "run", id="a program"),
    ],
)
async def test_a_slow_callback_is_reported_with_its_location(block: Callable[[], object], name: str) -> None:
    found: list[Stall] = []
    with watch_loop(LIMIT, found.append):
        await anyio.sleep(0.03)
        block()
        await anyio.sleep(0.03)
    assert [each for each in found if name in each.stack and "test_stalls.py" in each.stack], found


@pytest.mark.slow
async def test_garbage_collection_is_reported_as_the_cause() -> None:
    found: list[Stall] = []
    heap = [[number] for number in range(1_500_000)]
    with watch_loop(LIMIT, found.append):
        await anyio.sleep(0.03)
        gc.collect()
        await anyio.sleep(0.03)
    assert len(heap) == 1_500_000
    assert [each for each in found if each.collected > LIMIT and "garbage collection" in str(each)], found


@pytest.mark.slow
async def test_a_busy_machine_is_not_reported_as_a_stall() -> None:
    found: list[Stall] = []
    with busy(6), watch_loop(LIMIT, found.append):
        end = time.monotonic() + 2
        while time.monotonic() < end:
            compute(0.015)
            await anyio.sleep(0.001)
            await anyio.to_thread.run_sync(compute, 0.015)
    assert found == []


STOPPED = """
import asyncio, sys, time
from hotdesk.api.http.stalls import watch_loop

async def main():
    with watch_loop(0.3, lambda stall: print(stall, flush=True)):
        await asyncio.sleep(0.03)
        print("waiting", flush=True)
        sys.stdin.readline()
        await asyncio.sleep(0.03)

asyncio.run(main())
"""


async def test_a_process_that_was_stopped_has_not_stalled() -> None:
    argv = [sys.executable, "-c", STOPPED]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGSTOP)
        await anyio.sleep(0.8)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.send_signal(signal.SIGCONT)
        assert process.communicate()[0] == ""


@pytest.mark.parametrize(
    ("block", "taken", "stalls_found"),
    [
        pytest.param(lambda: compute(0.1), 0.0, 1, id="its own"),
        pytest.param(lambda: compute(0.1), 0.2, 0, id="the hypervisor's"),
        pytest.param(lambda: time.sleep(0.1), 0.2, 1, id="a wait beside it"),
    ],
)
async def test_steal_time_is_not_reported_as_a_stall(
    monkeypatch: pytest.MonkeyPatch, block: Callable[[], object], taken: float, stalls_found: int
) -> None:
    found: list[Stall] = []
    with watch_loop(LIMIT, found.append):
        await anyio.sleep(0.03)
        before = stalls.measure_other_threads(str(threading.get_native_id()))
        block()
        monkeypatch.setattr(stalls, "measure_other_threads", lambda but: {**before, "steal": before["steal"] + taken})
        await anyio.lowlevel.checkpoint()
    assert len([each for each in found if each.seconds > LIMIT]) == stalls_found
