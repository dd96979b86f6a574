"""Tests of resource limits."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from hotdesk.linux.rlimits import limit_added_memory
limit_added_memory(64 << 20)
bytearray(16 << 20)
try:
    bytearray(128 << 20)
except MemoryError:
    print("refused")
"""


def test_memory_beyond_the_limit_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"
