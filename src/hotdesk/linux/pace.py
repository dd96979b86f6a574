"""How slow this machine is: limits that only detect a hang are longer on a slow (for example emulated) machine."""

from __future__ import annotations

from time import perf_counter

_ROUNDS = 300
_USUAL_S = 18e-6
"""Seconds for the rounds on an ordinary processor of one core at 2.5 GHz."""
_TOLERANCE = 2.0
"""A machine that is less than this many times slower has the usual limits. Emulation slows the rounds down 3 to 10
times, by the moment, but the start of a process 20 times."""
_MAX_PACE = 30.0
_RUNS = 5
_measured: list[float] = []
"""The result, once it was measured in this process. `functools` would double what a quick command imports."""


def measure_pace() -> float:
    """Return how many times slower than usual this machine runs Python: 1 to 30. Measured once in a process.

    The fastest of several short runs counts: programs in desks, which keep processors busy, must not be able to extend
    the limits that apply to them.
    """
    if not _measured:
        found = _MAX_PACE
        for _ in range(_RUNS):
            found = min(found, compute_pace(_time_rounds()))
            if found == 1.0:
                break
        _measured.append(found)
    return _measured[0]


def compute_pace(seconds: float) -> float:
    """Return the pace of a machine that needs these seconds for the rounds."""
    slower = seconds / _USUAL_S
    return 1.0 if slower < _TOLERANCE else min(slower, _MAX_PACE)


def scale_seconds(usual: float) -> float:
    """Return a limit for this machine. Only for limits that detect a hang: not for deadlines, and not for tenants'."""
    return usual * measure_pace()


def _time_rounds() -> float:
    began, total = perf_counter(), 0
    for number in range(_ROUNDS):
        total += number
    return perf_counter() - began
