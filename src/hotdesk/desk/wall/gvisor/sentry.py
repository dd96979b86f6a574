"""Call a desk's sentry as runsc does, over the same socket, in a process that is confined like runsc.

Starting runsc takes ten times as long as most requests. The requests are those of the release that hotdesk installs; if
another release answers differently, the caller uses runsc instead. A sentry may be compromised: only a match of a fixed
pattern in a bounded number of bytes is read from its answers, by a process without privileges.
"""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Sequence

from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.gvisor import runsc as program
from hotdesk.desk.wall.gvisor.runsc import CONTAINER, Runsc
from hotdesk.desk.wall.seam import GO
from hotdesk.linux import syscalls

_FAILED = b"0"
_SUCCESS = re.compile(rb'\{"success":true,"err":"","result":([^{}]{1,32}|\{\})\}\s*')
_MAX_ANSWER_BYTES = 512
_TIMEOUT_S = 300.0
"""Seconds one request may take; saving a desk's memory takes the longest."""


class Asking:
    """A confined child that carries out one of several functions on command, repeatedly, and ends with its parent.

    Confining it takes some milliseconds, so it is started while other work is done.
    """

    def __init__(self, runsc: Runsc, room: Room, userns: int, *works: Callable[[], bool]) -> None:
        (words, self.go), (self.report, reports) = syscalls.make_two_pipes()
        self.child = os.fork()
        if self.child == 0:
            try:
                syscalls.close_all((self.go, self.report))
                program.confine(runsc, room, userns, capable=False)
                while word := os.read(words, 1):
                    os.write(reports, GO if works[word[0]]() else _FAILED)
            finally:
                os._exit(0)
        syscalls.close_all((words, reports))

    def do(self, number: int) -> bool:
        """Have one of the functions carried out; return its result, False if the child is gone."""
        try:
            os.write(self.go, bytes((number,)))
            return os.read(self.report, 1) == GO
        except BrokenPipeError:
            return False

    def end(self) -> None:
        """Let the child end, and wait for it."""
        syscalls.close_all((self.go, self.report))
        program.wait(self.child)


# -- in the confined child -------------------------------------------------------------------------------------


def call(method: str, argument: object, fds: Sequence[int] = ()) -> bytes | None:
    """Make one request; return the result in its answer, or `None` if the sentry did not carry it out."""
    request = json.dumps({"method": f"containerManager.{method}", "arg": argument}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.connect(f"/{program.STATE}/runsc-{CONTAINER}.sock")
        socket.send_fds(sock, [request], fds)
        found = _SUCCESS.fullmatch(sock.recv(_MAX_ANSWER_BYTES))
    return found[1] if found else None


def pause() -> bool:
    return call("Pause", {}) is not None


def resume() -> bool:
    return call("Resume", {}) is not None


def write_memory(folder: str) -> bool:
    """Write the memory to files in a folder. A failure leaves no files."""
    paths = [f"{folder}/{name}" for name in ("checkpoint.img", "pages_meta.img", "pages.img")]
    fds = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600) for path in paths]
    options = {"metadata": {"compression": "none"}, "have_pages_file": True, "resume": True}
    if call("Checkpoint", options, fds) is not None:
        return True
    for path in paths:
        os.unlink(path)
    return False


def run_once(path: str, capability: int) -> bool:
    """Run a program to its end as root with one capability; return whether it succeeded."""
    bits = 1 << capability
    sets = {"PermittedCaps": bits, "EffectiveCaps": bits, "BoundingCaps": bits}
    process = {"filename": path, "argv": [path], "working_directory": "/", "capabilities": sets}
    pid = call("ExecuteAsync", {**process, "KUID": 0, "KGID": 0, "container_id": CONTAINER})
    if pid is None or not pid.isdigit():
        return False
    return call("WaitPID", {"PID": int(pid), "CID": CONTAINER}) == b"0"
