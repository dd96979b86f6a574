"""A child process for work that root should not do: started on first use, controlled over one socket."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import sys
import time
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
"""The folder of hotdesk's packages, from which child processes import."""
START = (
    "import sys;sys.path.insert(0,sys.argv[1]);from hotdesk.ipc.title import set_title;set_title(sys.argv[2]);"
    "import importlib;importlib.import_module(sys.argv[2]).main()"
)
LINES = 3
"""The first file descriptor of a child's sockets."""
MAX_PACKET_BYTES = 1 << 16
"""Maximum bytes of a message to or from a keeper or the launcher."""
RESTART_INTERVAL_S = 1.0
"""Minimum seconds between two starts, so that a child that dies at once is not restarted in a tight loop."""


class Child:
    """A child process, running or not."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.pid = 0
        self.line: socket.socket | None = None
        self.started = -RESTART_INTERVAL_S

    def can_restart(self) -> bool:
        return time.monotonic() - self.started >= RESTART_INTERVAL_S

    def start(self, settings: Mapping[str, object]) -> None:
        """Start the child with its settings in its arguments and the socket at its descriptor 3."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.pid = spawn(self.program, settings, theirs)
        self.started = time.monotonic()
        self.line = ours

    def tell(self, message: Mapping[str, object], *fds: int) -> None:
        """Send a message with file descriptors; kill a child that does not take it."""
        if self.line is not None:
            try:
                send_now(self.line, json.dumps(message).encode(), fds)
            except OSError:
                self.give_up()

    def give_up(self) -> None:
        """Kill a child that is dying or takes no messages; the next use starts another."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def note_exit(self, pid: int) -> bool:
        if pid != self.pid:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close the socket; the child then ends by itself."""
        if self.line is not None:
            self.line.close()
        self.line, self.pid = None, 0


def spawn(program: str, settings: Mapping[str, object], *lines: socket.socket) -> int:
    """Start a program of hotdesk with its settings as argument and its sockets from descriptor 3 on; return its pid."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    aside = [fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, LINES + len(lines)) for line in lines]
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-B", "-c", START, str(SOURCE), program, json.dumps(settings)],
            {"PATH": os.defpath},
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, fd, LINES + place) for place, fd in enumerate(aside)),
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, null, 1),
                (os.POSIX_SPAWN_DUP2, 2, 2),
            ],
            setsid=True,
        )
    finally:
        for fd in (null, *aside):
            os.close(fd)


def send_now(sock: socket.socket, data: bytes, fds: Sequence[int]) -> None:
    """Send a message with file descriptors without blocking. Python 3.11's `socket.send_fds` ignores its flags."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
    sock.sendmsg([data], rights, socket.MSG_DONTWAIT)
