"""The keeper's hold on readers: started when an owner asks, with lines to it alone."""

from __future__ import annotations

import socket

from hotdesk.config import Config
from hotdesk.desk import part, uids
from hotdesk.errors import KeeperError

PROGRAM = "hotdesk.hands.reader.process"
MOST = 2048
"""Readers of one owner; a desk needs one."""
STUCK = 30.0
"""Seconds a reader may be stuck before it is ended."""


class Readers:
    """The readers of one owner that run."""

    def __init__(self, settings: Config) -> None:
        self.settings = settings
        self.pids: set[int] = set()

    def start(self) -> tuple[socket.socket, socket.socket]:
        """Start one; give the owner's ends of its lines: one to talk over, one to hand it connections."""
        if len(self.pids) >= MOST:
            raise KeeperError(f"{MOST} readers run already; close some desks")
        empty = self.settings.run / "private" / "empty"
        empty.mkdir(mode=0o555, exist_ok=True)
        talk, hears = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        hand, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with hears, takes:
            told = {"uid": uids.READER, "root": str(empty), "stuck": STUCK}
            self.pids.add(part.spawn(PROGRAM, told, hears, takes))
        return talk, hand

    def ended(self, pid: int) -> bool:
        """Note the exit of one."""
        known = pid in self.pids
        self.pids.discard(pid)
        return known
