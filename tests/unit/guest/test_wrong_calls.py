"""Tests of the filter of root's guest behind gVisor, in a process on this machine's kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from hotdesk.desk.wall.gvisor import bundle
from hotdesk.ipc.child import SOURCE
from hotdesk_guest import wrong_calls

TRY = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
from hotdesk_guest import wrong_calls
assert wrong_calls.refuse()
libc, numbers, told = ctypes.CDLL(None, use_errno=True), json.loads(sys.argv[2]), []
for name, *words in numbers:
    ctypes.set_errno(0)
    libc.syscall(*map(ctypes.c_long, (name, *words)))
    told.append(ctypes.get_errno())
print(json.dumps(told))
"""
HIGH = 1 << 40
"""A bit that the kernel ignores in an int."""


def test_it_refuses_raw_and_packet_sockets_and_close_range_and_nothing_else() -> None:
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
    sockets = {
        (2, 3, 1): 1,
        (2 | HIGH, 3 | HIGH, 1): 1,
        (10, 3 | 0x80000, 255): 1,
        (17, 2, 0): 1,
        (17, 3, 3): 1,
        (2, 1, 0): 0,
        (10, 2, 0): 0,
        (1, 3, 0): 0,
        (16, 3, 0): 0,
    }
    calls = [(436, 100, 200, 0), *((number, *words) for words in sockets)]
    argv = [sys.executable, "-c", TRY, str(SOURCE), json.dumps(calls)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [38, *sockets.values()]


def test_it_knows_the_calls_of_every_machine() -> None:
    assert len({wrong_calls.build_filter(machine) for machine in ("x86_64", "aarch64")}) == 2
    rows: list[dict[str, list[str]]] = json.loads(json.dumps(bundle.WRONG_CALLS["syscalls"]))
    names = {name for row in rows for name in row["names"]}
    assert names == {"socket", "close_range"}, "the configuration refuses more: the filter here must as well"
