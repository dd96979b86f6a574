"""Start a keeper. Apart from its client, and light, so that a command can start one before it imports the rest."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from hotdesk.config import Config
from hotdesk.errors import HostError
from hotdesk.ipc.child import MAX_PACKET_BYTES, SOURCE

START = "import sys;sys.path.insert(0,sys.argv[2]);from hotdesk.desk.keeper import keeper;keeper.main()"


@dataclass(frozen=True, slots=True)
class Started:
    """A keeper that was started: our end of its socketpair, and its pid."""

    sock: socket.socket
    pid: int
    ahead: str = ""
    """A request without a desk that it was sent already, numbered 1: whoever asks for that waits for its answer."""


def start(config: Config) -> Started:
    """Start a keeper for this process."""
    if os.geteuid() != 0:
        raise HostError(missing_privilege())
    ours, theirs = pair()
    with theirs:
        return Started(ours, launch(config, theirs))


def pair() -> tuple[socket.socket, socket.socket]:
    """Make an owner's line to its keeper; whoever makes it is the owner."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MAX_PACKET_BYTES)
    return ours, theirs


def launch(config: Config, theirs: socket.socket) -> int:
    """Start a keeper: a session of its own, so that Ctrl-C reaches only the owner; PATH and nothing else inherited."""
    settings = encode_settings(config)
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    stderr = 2 if os.environ.get("HOTDESK_DEBUG") else null
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-B", "-c", START, settings, str(SOURCE)],
            {"PATH": os.defpath},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigmask=(),
        )
    finally:
        os.close(null)


_OF_JOBS = ("limits", "prices", "retention_days", "patience", "drive_quota", "signers")
"""Settings no keeper knows of."""


def encode_settings(config: Config) -> str:
    """Write the settings a keeper is handed on its command line."""
    settings = {field.name: getattr(config, field.name) for field in fields(config) if field.name not in _OF_JOBS}
    return json.dumps({**settings, "names": dict(config.names)}, default=str)


def decode_settings(text: str) -> Config:
    """Read the settings an owner hands down on the command line."""
    values = json.loads(text)
    folders = {name: Path(values[name]) for name in ("run", "lib", "images")}
    return Config(**{**values, **folders, "ceiling": tuple(values["ceiling"])})


def missing_privilege() -> str:
    """Say what an ordinary user lacks."""
    return (
        "opening a desk needs root (mounts, namespaces, cgroups), and no `hotdesk serve` is running that would do it "
        "for you; use sudo, or ask whoever runs this machine to start one"
    )
