"""The keeper's hold on the door's process: started by the first call at any gate, fed gates, restarted when it dies.

The keeper keeps its own copy of every gate: while the door is away calls wait, and no program inside can take the port.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from hotdesk.desk import uids
from hotdesk.desk.spawn import send_now

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = "hotdesk.door.proxy"
START = f"import sys;sys.path.insert(0,sys.argv[1]);import importlib;importlib.import_module('{PROGRAM}').main()"
PAUSE = 1.0
"""Seconds between two starts, so that a door that dies at once does not spin."""


class Doorman:
    """One door, if one runs."""

    def __init__(self) -> None:
        self.pid = 0
        self.line: socket.socket | None = None
        self.gates: dict[str, socket.socket] = {}
        self.started = -PAUSE

    def add(self, desk: str, gate: socket.socket) -> None:
        """Take charge of a gate."""
        self.gates[desk] = gate
        self.tell(desk, gate)

    def remove(self, desk: str) -> None:
        """Let go of a gate; its room closes it."""
        if self.gates.pop(desk, None) is not None:
            self.tell(desk)

    def waiting(self) -> list[int]:
        """List the gates at which a call must start the door."""
        return [] if self.pid or not self.rested() else [gate.fileno() for gate in self.gates.values()]

    def rested(self) -> bool:
        """Say whether the last start is long enough ago."""
        return time.monotonic() - self.started >= PAUSE

    def start(self) -> None:
        """Start the door and give it every gate."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-B", "-c", START, str(SOURCE), str(uids.DOOR)],
                {"PATH": os.defpath},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), 3),
                    *((os.POSIX_SPAWN_DUP2, null, number) for number in range(3)),
                ],
                setsid=True,
            )
        finally:
            os.close(null)
            theirs.close()
        self.started = time.monotonic()
        self.line = ours
        for desk, gate in self.gates.items():
            self.tell(desk, gate)

    def tell(self, desk: str, *gates: socket.socket) -> None:
        """Hand the door a gate, or have it shut one."""
        if self.line is not None:
            fds = [gate.fileno() for gate in gates]
            try:
                send_now(self.line, json.dumps({"gate": desk}).encode(), fds)
            except OSError:
                self.give_up()

    def give_up(self) -> None:
        """End a door that is dying or takes no messages; the next call starts another."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self, pid: int) -> bool:
        """Note the door's exit; the next call starts another."""
        if pid != self.pid:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Hang up; the door ends by itself."""
        if self.line is not None:
            self.line.close()
        self.line, self.pid = None, 0
