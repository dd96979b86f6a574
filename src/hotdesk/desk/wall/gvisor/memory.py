"""Have runsc write down what runs in a desk, to a folder of the desk's own layer.

The runsc that does so is root of the desk's user namespace without capabilities, in the desk's pid namespace, with the
room as its root directory, as the one that starts root's guest (`runsc.enter`): what it reads of a sentry harms nobody.

For a copy the programs are paused before the memory is written and go on after the keeper has taken a snapshot of the
layer: files and memory are of one moment.
"""

from __future__ import annotations

import os
import signal
import time

from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.gvisor import runsc as program
from hotdesk.desk.wall.gvisor.runsc import CONTAINER, IMAGE, Runsc
from hotdesk.desk.wall.seam import GO, MemoryWriter
from hotdesk.linux import syscalls

LOG = "memory.log"
_FAILED = b"0"
_STEP_TIMEOUT_S = 300.0
"""Seconds one step may take; the desk decides how much memory there is to write."""
_POLL_INTERVAL_S = 0.002
_WRITE = ("checkpoint", f"--image-path=/{IMAGE}", "--compression=none")


def save(runsc: Runsc, room: Room, supervisor: int, *, stop: bool) -> MemoryWriter:
    """Start a process that has a desk's memory written down."""
    (report_r, report_w), (go_r, go_w) = syscalls.two_pipes()
    try:
        launcher = os.fork()
    except OSError:
        syscalls.close_all((report_r, report_w, go_r, go_w))
        raise
    if launcher == 0:
        try:
            program.leave_keeper()
            room.cgroup.join()
            pidns = os.open(f"/proc/{supervisor}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            syscalls.close_but({0, 1, 2, pidns, room.userns, room.netns, report_w, go_r})
            syscalls.setns(room.netns, syscalls.CLONE_NEWNET)
            syscalls.setns(pidns, syscalls.CLONE_NEWPID)
            (write_and_stop if stop else write_and_go_on)(runsc, room, report_w, go_r)
        except BaseException as e:  # noqa: BLE001 - a child: its caller's stack is the keeper's
            program.fail(room, e)
    syscalls.close_all((report_w, go_r))
    return MemoryWriter(launcher, report_r, go_w)


# -- in the launcher -------------------------------------------------------------------------------------------


def write_and_stop(runsc: Runsc, room: Room, report: int, go: int) -> None:
    """Write the memory, with which the sentry ends."""
    is_written = step(runsc, room, *_WRITE)
    os.write(report, GO if is_written else _FAILED)
    os._exit(0)


def write_and_go_on(runsc: Runsc, room: Room, report: int, go: int) -> None:
    """Write the memory while no program runs, wait until the files are kept as well, and let programs go on."""
    is_written = step(runsc, room, "pause") and step(runsc, room, *_WRITE, "--leave-running")
    os.write(report, GO if is_written else _FAILED)
    if is_written:
        os.read(go, 1)
    is_running = step(runsc, room, "resume")
    os.write(report, GO if is_running else _FAILED)
    os._exit(0)


def step(runsc: Runsc, room: Room, *arguments: str) -> bool:
    """Have runsc do one thing to the desk; say whether it did."""
    child = program.start_inside(runsc, room, room.userns, LOG, [*arguments, CONTAINER])
    end = time.monotonic() + _STEP_TIMEOUT_S
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(_POLL_INTERVAL_S)
    os.kill(child, signal.SIGKILL)
    return False


# -- in the keeper ---------------------------------------------------------------------------------------------


def explain(room: Room) -> str:
    """Return what runsc reported last."""
    return program.complaint(room, 1, LOG)
