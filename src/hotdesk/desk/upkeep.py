"""What is done to an open desk from outside: counting, pausing, dialling, and having root's guest inside."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress

from hotdesk.config import Config
from hotdesk.desk import bundle, kernel, launch, proof
from hotdesk.desk.held import Held, Root, now
from hotdesk.desk.room import call_port
from hotdesk.errors import BriefError, DeskError, KeeperError

FREEZING = 0.25
"""Seconds a desk may take to stop."""
RISING = 20.0
"""Seconds the runtime may take to start root's guest."""


def usage(held: Held) -> dict[str, object]:
    """Read what a desk uses."""
    return {**held.room.cgroup.usage(), "disk": held.room.disk.used(held.room.desk, held.room.folder / "disk")}


def pause(held: Held) -> None:
    """Freeze a desk; one that does not stop goes on."""
    if held.paused:
        return
    if held.root is not None and held.root.runtime:
        raise DeskError(f"desk {held.room.desk} is starting its root; try again")
    cgroup = held.room.cgroup
    cgroup.freeze(True)
    end = now() + FREEZING
    while not cgroup.frozen():
        if now() > end:
            cgroup.freeze(False)
            raise DeskError(f"desk {held.room.desk} did not stop within {FREEZING} s; it goes on")
        time.sleep(0.0002)
    held.paused = True
    held.record.note(state="paused")


def resume(held: Held) -> None:
    """Thaw a desk."""
    if held.paused:
        held.room.cgroup.freeze(False)
        held.paused = False
        held.touched = now()
        held.record.note(state="open")


def dial(held: Held, port: int) -> socket.socket:
    """Give a connection, made or about to be, to a server on a desk's own loopback."""
    held.touched = now()
    try:
        return kernel.in_netns(held.room.netns, lambda: call_port(port))
    except OSError as e:
        raise DeskError(f"desk {held.room.desk}: {e.strerror or e}") from e


def start_root(settings: Config, held: Held, asked: int) -> None:
    """Begin to start a desk's second guest, which is root inside."""
    held.knocked = False
    if held.room.sudo is None:
        raise BriefError(f"desk {held.room.desk} was opened without root; open one with `root`")
    if held.paused or held.root is not None:
        raise DeskError(f"desk {held.room.desk} {'is paused; resume it first' if held.paused else 'has its root'}")
    held.room.listener = held.room.admit_root()
    held.root = Root(launch.enter(settings, held.room, held.room.sudo), asked, now() + RISING)


def prove_root(settings: Config, held: Held, root: Root, status: int) -> None:
    """Raise unless root's guest is up, and stands behind the desk's walls."""
    room = held.room
    if status != 0:
        told = launch.complaint(settings, room, status, "root.log")
        raise KeeperError(f"root's guest did not start in desk {room.desk}: {told}")
    root.init = int((room.folder / "root.pid").read_text())
    proof.check(root.init, room.base, bundle.CAPABILITY_BITS, room.netns, room.userns)


def end_root(held: Held, root: Root) -> None:
    """Give up a root that did not come up as it should."""
    for pid in filter(None, (root.runtime, root.init)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    held.root = None
