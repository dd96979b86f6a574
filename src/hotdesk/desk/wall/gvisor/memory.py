"""Make runsc save a desk's memory to a folder of its own layer.

The runsc process that does so is root of the desk's user namespace without capabilities, in the desk's pid namespace,
with the room as its root directory, like the one that starts the guest for root (`runsc.enter`). So parsing data of a
hostile sentry cannot harm the host.

For a fork the programs are paused before the memory is written, and continue after the keeper has taken a snapshot of
the layer: files and memory are of the same moment.
"""

from __future__ import annotations

import os
import signal
import time

from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.gvisor import runsc as program
from hotdesk.desk.wall.gvisor import sentry
from hotdesk.desk.wall.gvisor.runsc import CONTAINER, IMAGE, Runsc
from hotdesk.desk.wall.seam import GO, MemoryWriter
from hotdesk.linux import syscalls

LOG = "memory.log"
_FAILED = b"0"
_STEP_TIMEOUT_S = 300.0
"""Seconds one step may take; the desk determines how much memory must be written."""
_POLL_INTERVAL_S = 0.002
_REASONS = (
    ("deleted and invalidated dentries", "a program has a deleted file or folder open; end that program"),
    ("SCMConnectedEndpoint", "a program is connected to a socket of the host; close that connection"),
    ("quota exceeded", "the disk of the desk is full; delete files"),
    ("no space left", "the disk of the desk is full; delete files"),
)
"""Texts in runsc's log, and what they mean."""
_WRITE = ("checkpoint", f"--image-path=/{IMAGE}", "--compression=none", "--leave-running")


def save(runsc: Runsc, room: Room, supervisor: int, *, stop: bool) -> MemoryWriter:
    (report_r, report_w), (go_r, go_w) = syscalls.make_two_pipes()
    try:
        launcher = os.fork()
    except OSError:
        syscalls.close_all((report_r, report_w, go_r, go_w))
        raise
    if launcher == 0:
        try:
            program.leave_keeper()
            pidns = os.open(f"/proc/{supervisor}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            syscalls.close_but({0, 1, 2, pidns, room.userns, room.netns, report_w, go_r})
            syscalls.setns(room.netns, syscalls.CLONE_NEWNET)
            syscalls.setns(pidns, syscalls.CLONE_NEWPID)
            write(runsc, room, report_w, go_r, stop=stop)
        except BaseException as e:  # noqa: BLE001 - a child: its caller's stack is the keeper's
            program.fail(room, e)
    syscalls.close_all((report_w, go_r))
    return MemoryWriter(launcher, report_r, go_w)


# -- in the launcher -------------------------------------------------------------------------------------------


def write(runsc: Runsc, room: Room, report: int, go: int, *, stop: bool) -> None:
    """Write the memory while no program runs, wait until the files are saved as well, and let programs continue.

    With `stop` they continue only if that failed. A sentry asked to exit with its checkpoint would exit even then.
    """
    (room.folder / program.STATE / LOG).unlink(missing_ok=True)
    asking = sentry.Asking(
        runsc, room, room.userns, sentry.pause, lambda: sentry.write_memory(f"/{IMAGE}"), sentry.resume
    )
    is_paused = asking.do(0)
    is_written = is_paused and asking.do(1)
    if not is_written:
        room.cgroup.join()
        is_written = (is_paused or step(runsc, room, "pause")) and step(runsc, room, *_WRITE)
    os.write(report, GO if is_written else _FAILED)
    os.read(go, 1)
    if not (is_written and stop):
        is_running = (is_paused and asking.do(2)) or step(runsc, room, "resume")
        os.write(report, GO if is_running else _FAILED)
    asking.end()
    os._exit(0)


def step(runsc: Runsc, room: Room, *arguments: str) -> bool:
    """Make runsc execute one command for the desk; return whether it succeeded."""
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
    """Return why the memory could not be saved. A sentry can write to the log, so only known texts are used."""
    text = program.read_log(room, LOG)
    return next((reason for mark, reason in _REASONS if mark in text), "gVisor's runsc failed for an unknown reason")
