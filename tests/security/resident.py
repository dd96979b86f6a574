"""The memory of this process, which owns the desks that attack it."""

from __future__ import annotations

import ctypes
import gc
import os
from pathlib import Path


def memory() -> int:
    """Return the resident bytes of this process, the owner."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak() -> int:
    """Return the peak resident bytes since the last reset."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


def reset_peak() -> int:
    """Reset the peak, after returning memory that earlier tests freed; return the resident bytes."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory()
