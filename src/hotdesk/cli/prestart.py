"""Starts a keeper before the rest of a command is imported: both take about as long, and there are two cores."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from hotdesk import config
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started, start

_started: list[tuple[Config, Started]] = []


_NICENESS = 10
"""Niceness of a server's swarm: it gets a tenth of the CPU time of others while they need it."""


def yield_to_tenants() -> None:
    """Lower the CPU priority of a server's swarm, including its keeper and desks, in favour of other tenants."""
    if os.environ.get("HOTDESK_TENANT"):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def begin(*, keys: bool = False) -> None:
    """Start a keeper, and keys if needed. They end by themselves if the command opens no desk."""
    if os.geteuid() == 0:
        chosen = config.load()
        if config.find_node_identity(chosen) is not None:
            return  # desks are on nodes
        keeper = start(chosen)
        _started.append((chosen, _send_ahead(keeper, "keys") if keys else keeper))


def _send_ahead(keeper: Started, verb: str) -> Started:
    """Send a keeper an early request that concerns no desk; its reply is read later."""
    message = {"n": 1, "verb": verb, "desk": f"i{os.urandom(10).hex()}"}
    keeper.sock.send(json.dumps(message).encode())
    return replace(keeper, ahead=verb)


def get_settings() -> Config:
    return _started[0][0] if _started else config.load()


def take_keeper() -> Started | None:
    return _started.pop()[1] if _started else None
