"""Tests of reading facts about processes, whose names are any bytes that they choose."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hotdesk.linux.processes import is_dying, read_status

RENAME = """
import ctypes, sys
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def named(name: bytes) -> Iterator[int]:
    """Run a process with this name until the block ends."""
    argv = [sys.executable, "-I", "-c", RENAME, name.hex()]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate(b"")


@pytest.mark.parametrize("name", [b"\xff\xfe\x80", b"a\rPPid:\t1", b"a\x0bUid:\t0\x0c", "a\u2028b:".encode()])
def test_no_name_of_a_process_prevents_reading_its_status(name: bytes) -> None:
    with named(name) as pid:
        status = read_status(pid)
        assert list(status)[:3] == list(read_status(1))[:3], "its name made another line"
        assert status["Name"] == name.decode(errors="replace").strip()
        assert not is_dying(pid)
