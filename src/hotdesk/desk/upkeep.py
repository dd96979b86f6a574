"""What is done to an open desk from outside: counting, pausing, dialling."""

from __future__ import annotations

import socket
import time

from hotdesk.desk import kernel
from hotdesk.desk.held import Held, now
from hotdesk.desk.room import call_port
from hotdesk.errors import DeskError

FREEZING = 0.25
"""Seconds a desk may take to stop."""


def usage(held: Held) -> dict[str, object]:
    """Read what a desk uses."""
    return {**held.room.cgroup.usage(), "disk": held.room.disk.used(held.room.desk, held.room.folder / "disk")}


def pause(held: Held) -> None:
    """Freeze a desk; one that does not stop goes on."""
    if held.paused:
        return
    if held.root is not None and not held.root.proven:
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
