"""Privileges that a server drops once its launcher runs, because it reads untrusted data.

It keeps reading, and writing where results, keys, uploads and sockets go. It makes no connection and no listener, gains
no privilege, signals no one else, and has no capability but to read. Keepers and jobs are its starter's to begin.
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
"""What a server writes in the machine's own state directory; only root enters."""


def give_up(settings: Config, *, dials: bool = False, ports: Collection[int] = ()) -> None:
    """Give up everything a server does not need; call it before any thread is started.

    One whose desks are on nodes connects to their `ports`, and nowhere else; it gives up the rest as any user.
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
