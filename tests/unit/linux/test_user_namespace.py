"""Tests of creating a desk's user namespace as a user that runs nothing, also where only root may create one."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.linux import syscalls, uids

NS_GET_OWNER_UID = 0xB704
CREATOR = uids.FIRST + uids.ANCHOR
BECOME = f"""
from hotdesk.linux import syscalls
syscalls.become_creator({CREATOR})
lines = open("/proc/self/status").read().splitlines()
print(*(line.split()[-1] for line in lines if line.startswith(("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh"))))
"""


@pytest.mark.container
def test_the_creator_keeps_one_capability_which_is_what_a_restricted_machine_asks_for() -> None:
    source = str(Path(syscalls.__file__).parents[2])
    argv = [sys.executable, "-c", BECOME]
    done = subprocess.run(argv, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [str(CREATOR), str(CREATOR), "Groups:", f"{0:016x}", *[f"{1 << 21:016x}"] * 2]


@pytest.mark.container
def test_a_namespace_belongs_to_its_creator() -> None:
    with syscalls.start_anchor(CREATOR) as anchor:
        namespace = anchor.open(uids.format_id_map(uids.FIRST), uids.format_id_map(uids.FIRST))
        try:
            owner = bytearray(4)
            fcntl.ioctl(namespace, NS_GET_OWNER_UID, owner)
        finally:
            os.close(namespace)
    os.waitpid(anchor.pid, 0)
    assert struct.unpack("=I", owner) == (CREATOR,)
