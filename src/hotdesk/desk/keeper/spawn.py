"""Start a keeper. Imports little, so that a command can start one before it imports the rest."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import fields
from pathlib import Path

from hotdesk import config as settings_file
from hotdesk.config import Config
from hotdesk.dataclass import dataclass
from hotdesk.desk.keeper import program
from hotdesk.errors import HostError
from hotdesk.ipc.child import MAX_PACKET_BYTES


@dataclass(frozen=True, slots=True)
class Started:
    """A running keeper: the owner's end of its socketpair, and its pid."""

    sock: socket.socket
    pid: int
    ahead: str = ""
    """A request without a desk that was already sent as number 1; the caller that needs it awaits its answer."""


def start(config: Config) -> Started:
    if os.geteuid() != 0:
        raise HostError(describe_missing_privilege())
    ours, theirs = pair()
    with theirs:
        return Started(ours, launch(config, theirs))


def pair() -> tuple[socket.socket, socket.socket]:
    """Make a socketpair for an owner and its keeper. The calling process becomes the owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET_BYTES)
    return ours, theirs


def launch(config: Config, theirs: socket.socket) -> int:
    return program.launch(encode_settings(config), theirs.fileno())


_OF_JOBS = (
    "limits",
    "prices",
    "retention_days",
    "patience",
    "drive_quota",
    "signers",
    "verify_wall",
    "holder",
    "holder_ready",
    "holder_idle",
)
"""Settings that keepers do not use."""


def encode_settings(config: Config) -> str:
    settings = {field.name: getattr(config, field.name) for field in fields(config) if field.name not in _OF_JOBS}
    return json.dumps({**settings, "names": dict(config.names)}, default=str)


def decode_settings(text: str) -> Config:
    """Decode the settings that an owner passes on the command line. An owner without any passes its environment."""
    values = json.loads(text)
    if "environ" in values:
        return settings_file.load(values["environ"])
    folders = {name: Path(values[name]) for name in ("run", "lib", "images")}
    return Config(**{**values, **folders, "ceiling": tuple(values["ceiling"])})


def describe_missing_privilege(socket_path: Path | None = None) -> str:
    where = f"listens at {socket_path}" if socket_path else "is running"
    return (
        f"using desks needs root (mounts, namespaces, cgroups) or a server, and no `hotdesk serve` {where}; use sudo, "
        "or ask the operator to start one and to add you to the group hotdesk (`usermod -aG hotdesk USER`)"
    )
