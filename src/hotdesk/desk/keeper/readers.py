"""Readers as the keeper manages them: started on an owner's request, connected to that owner alone."""

from __future__ import annotations

import os
import signal
import socket

from hotdesk.config import Config
from hotdesk.errors import KeeperError
from hotdesk.ipc import child
from hotdesk.linux import uids
from hotdesk.linux.pace import scale_seconds

PROGRAM = "hotdesk.hands.reader.process"
_MAX_READERS = 2048
"""Maximum readers of one owner; a desk needs one."""
STUCK_AFTER_S = 30.0
"""Seconds without progress after which a reader is killed."""


class Readers:
    """The running readers of one owner."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.pids: dict[str, int] = {}
        """Pids by the names the readers were requested under."""

    def start(self, name: str) -> tuple[socket.socket, socket.socket]:
        """Start a reader; return the owner's ends of two sockets: one to talk over, one to pass it connections."""
        if len(self.pids) >= _MAX_READERS or name in self.pids:
            raise KeeperError(
                f"the screens or browsers of {_MAX_READERS} desks are in use, which is the limit; burn some desks"
            )
        empty = self.settings.run / "private" / "empty"
        empty.mkdir(mode=0o555, exist_ok=True)
        talk, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        hand, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with hears, takes:
            settings = {"uid": uids.READER, "root": str(empty), "stuck": scale_seconds(STUCK_AFTER_S)}
            self.pids[name] = child.spawn(PROGRAM, settings, hears, takes)
        return talk, hand

    def dismiss(self, name: str) -> None:
        """Kill a reader that its owner released: a compromised one would not end by itself."""
        if name in self.pids:
            os.kill(self.pids[name], signal.SIGKILL)  # not reaped yet, so its pid is not reused

    def note_exit(self, pid: int) -> bool:
        found = [name for name, reader in self.pids.items() if reader == pid]
        for name in found:
            del self.pids[name]
        return bool(found)

    def close(self) -> None:
        for name in self.pids:
            self.dismiss(name)
