"""Tests of creating a desk's user namespace as a user that runs nothing, also where only root may create one."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from hotdesk.linux import uids, user_namespace

NS_GET_OWNER_UID = 0xB704
WCLONE = -0x80000000
"""Flag of waitpid(2): only children that send no signal."""
CREATOR = uids.FIRST + uids.ANCHOR
IDS = uids.format_id_map(uids.FIRST)
BECOME = f"""
import os, threading
from hotdesk.linux import user_namespace

def show(task):
    lines = open(f"/proc/{{task}}/status").read().splitlines()
    print(*(word for line in lines if line.startswith(("Uid", "Gid", "CapEff")) for word in line.split()[1:]))

show("thread-self")
with user_namespace._acting_as({CREATOR}):
    show("thread-self")
    other = threading.Thread(target=show, args=("thread-self",))
    other.start()
    other.join()
show("thread-self")
"""


@pytest.mark.container
def test_the_creator_has_one_capability_which_a_restricted_machine_asks_for_and_only_as_long_as_needed() -> None:
    source = str(Path(user_namespace.__file__).parents[2])
    argv = [sys.executable, "-c", BECOME]
    done = subprocess.run(argv, env={"PYTHONPATH": source}, capture_output=True, text=True, check=True, timeout=60)
    before, within, other, after = (line.split() for line in done.stdout.splitlines())
    ids = [str(CREATOR), str(CREATOR), "0", str(CREATOR)]
    assert within == [*ids, *ids, f"{1 << 21:016x}"]
    assert before[:8] == after[:8] == ["0"] * 8
    assert before == after
    assert other[:8] == ids * 2, "a thread started meanwhile inherits the ids"


@pytest.mark.container
def test_a_namespace_belongs_to_its_creator_and_has_its_map() -> None:
    namespace = user_namespace.make(CREATOR, IDS)
    try:
        owner = bytearray(4)
        fcntl.ioctl(namespace, NS_GET_OWNER_UID, owner)
        command = ["nsenter", f"--user=/proc/self/fd/{namespace}", "cat", "/proc/self/uid_map", "/proc/self/gid_map"]
        inside = subprocess.run(command, pass_fds=[namespace], capture_output=True, text=True, check=True, timeout=60)
    finally:
        os.close(namespace)
    assert struct.unpack("=I", owner) == (CREATOR,)
    assert inside.stdout.split() == (IDS + IDS).split()


@pytest.mark.container
def test_making_a_namespace_leaves_no_process_and_no_signal() -> None:
    arrived: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, _frame: arrived.append(number))
    try:
        os.close(user_namespace.make(CREATOR, IDS))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not arrived
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG | WCLONE)


@pytest.mark.container
def test_a_map_that_the_kernel_refuses_leaves_no_process() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        user_namespace.make(CREATOR, "no map\n")
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG | WCLONE)
