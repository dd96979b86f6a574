"""Privileges that a server drops once its launcher runs, because it reads untrusted data.

It can still read files, and write where results, keys, uploads and sockets are. It cannot connect, listen, gain
privileges or signal other processes, and its only capability is to read. The launcher starts keepers and jobs for it.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from hotdesk.api.http import protocol
from hotdesk.api.launch.job_command import ORDERS
from hotdesk.config import Config
from hotdesk.door.policy import presets
from hotdesk.drive.keep import Drive
from hotdesk.errors import HostError
from hotdesk.linux.landlock import confine_reader

CLOSED = ("serve", "drive", "jobs", ORDERS)
"""Folders a server writes in the machine's own state directory; only root may enter them."""


def give_up(settings: Config, *, dials: bool = False, ports: Collection[int] = ()) -> None:
    """Drop every privilege that a server does not need; call it before any thread is started.

    A server whose desks are on nodes connects to their `ports` and nowhere else; it is confined even without root.
    """
    protocol.widen()
    if os.geteuid() != 0 and not ports:
        return
    presets.remember()
    Drive(settings.lib / "drive")
    closed = [settings.lib / name for name in CLOSED]
    passable = [settings.run / "control", settings.run / "tenants", settings.lib / "tenants"]
    for folder in closed:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in passable:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    if len(os.listdir("/proc/self/task")) > 1:
        raise HostError(
            "cannot drop privileges: a thread is already running and would keep them; this is a bug in hotdesk"
        )
    confine_reader(
        [*closed, settings.lib / "tenants"],
        [settings.run / "control", settings.run / "tenants"],
        dials=dials,
        ports=ports,
    )
