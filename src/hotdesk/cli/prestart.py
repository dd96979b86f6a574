"""A keeper started before the rest of a command is imported: both take about as long, and there are two cores."""

from __future__ import annotations

import json
import os
from dataclasses import replace

from hotdesk import config
from hotdesk.config import Config
from hotdesk.desk.keeper.spawn import Started, start

_started: list[tuple[Config, Started]] = []


_NICENESS = 10
"""Of a swarm on a server: a tenth of the processors that others get while they want them."""


def yield_to_tenants() -> None:
    """Have a server's swarm, its keeper and its desks leave the processors to other tenants, while they want them."""
    if os.environ.get("HOTDESK_TENANT"):
        os.setpriority(os.PRIO_PROCESS, 0, max(_NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def begin(*, keys: bool = False) -> None:
    """Start a keeper, and keys if they will be needed; a command that opens no desk lets them end by themselves."""
    if os.geteuid() == 0:
        chosen = config.load()
        if config.find_node_identity(chosen) is not None:
            return  # desks are on nodes
        keeper = start(chosen)
        _started.append((chosen, _send_ahead(keeper, "keys") if keys else keeper))


def _send_ahead(keeper: Started, verb: str) -> Started:
    """Send a keeper an early request about no desk, whose answer no one waits for yet."""
    message = {"n": 1, "verb": verb, "desk": f"i{os.urandom(10).hex()}"}
    keeper.sock.send(json.dumps(message).encode())
    return replace(keeper, ahead=verb)


def get_settings() -> Config:
    return _started[0][0] if _started else config.load()


def take_keeper() -> Started | None:
    return _started.pop()[1] if _started else None
