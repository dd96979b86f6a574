"""Tests of the machine's pace: an ordinary machine has the usual limits, and a slow one longer limits up to a bound."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time

import pytest

from hotdesk.linux import pace


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1e-6, 1.0), (18e-6, 1.0), (35e-6, 1.0), (36e-6, 2.0), (63e-6, 3.5), (360e-6, 20.0), (1.0, 30.0)],
)
def test_a_machine_is_slow_from_twice_the_usual_seconds_on(seconds: float, expected: float) -> None:
    assert pace.compute_pace(seconds) == pytest.approx(expected)


def test_a_limit_is_scaled_by_the_measured_pace() -> None:
    assert 1.0 <= pace.measure_pace() <= 30.0
    assert pace.scale_seconds(20.0) == 20.0 * pace.measure_pace()


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_busy_processors_do_not_make_a_machine_slow() -> None:
    before = pace.measure_pace()
    spawn = multiprocessing.get_context("spawn")
    busy = [spawn.Process(target=_spin, args=(2.0,)) for _ in range(4)]
    for process in busy:
        process.start()
    try:
        time.sleep(0.5)
        program = "from hotdesk.linux.pace import measure_pace; print(measure_pace())"
        output = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        assert float(output) < 4 * before
    finally:
        for process in busy:
            process.join()
