"""Start the OCI runtime: to run a desk, or to start root's guest inside one."""

from __future__ import annotations

import os
import signal
import socket

from hotdesk.config import Config
from hotdesk.desk import bundle, kernel
from hotdesk.desk.room import Room

DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
SCRATCH = "_LIBCONTAINER_STATEDIR"
"""Tells crun where to put the copy of itself it starts from; killed at that moment it would leave one in /tmp."""
LOG_LIMIT = 4096
ROOT_LOG = "root.log"


def run(settings: Config, room: Room) -> tuple[int, int]:
    """Start a desk from its bundle; give the runtime's pid, and the read end of the desk's standard output."""
    return start(
        settings, room, "run", "--detach", f"--bundle={room.folder / 'bundle'}", f"--pid-file={room.folder / 'pid'}"
    )


def enter(settings: Config, room: Room, sudo: socket.socket) -> int:
    """Start root's guest in a desk, with the socket `sudo` calls at; give the runtime's pid.

    The whole process object is handed over: a runtime's plain exec would give every capability, without the filter.
    """
    log, process = room.folder / ROOT_LOG, room.folder / "bundle/root.json"
    log.unlink(missing_ok=True)
    arguments = ("--detach", f"--process={process}", f"--pid-file={room.folder / 'root.pid'}", "--preserve-fds=1")
    pid, console = start(settings, room, "exec", *arguments, log=str(log), passed=sudo)
    os.close(console)
    return pid


def start(
    settings: Config, room: Room, verb: str, *arguments: str, log: str = "", passed: socket.socket | None = None
) -> tuple[int, int]:
    """Start the runtime inside the desk's cgroup.

    Its stdio are pipes: a runtime gives fds 0 to 2 to the desk's user, and a host file there would be the desk's.
    """
    argv = [
        settings.runtime,
        f"--root={settings.run / 'runtime'}",
        f"--log={log or room.folder / 'runtime.log'}",
        "--cgroup-manager=disabled",
        verb,
        *arguments,
        room.desk,
    ]
    (stdin_r, stdin_w), (console_r, console_w) = kernel.two_pipes()
    try:
        child = os.fork()
    except OSError:
        kernel.close_all((stdin_r, stdin_w, console_r, console_w))
        raise
    if child == 0:
        try:
            room.cgroup.join()
            for source, target in ((stdin_r, 0), (console_w, 1), (console_w, 2)):
                os.dup2(source, target)
            if passed is not None:
                os.dup2(passed.fileno(), 3)
            for number in DEFAULTED:
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], argv, {"PATH": bundle.PATH, SCRATCH: str(room.folder)})  # noqa: S606 - no shell
        finally:
            os._exit(127)
    kernel.close_all((stdin_r, stdin_w, console_w))
    return child, console_r


def complaint(settings: Config, room: Room, status: int, log: str = "runtime.log") -> str:
    """Give what the runtime said went wrong."""
    file = room.folder / log
    text = file.read_bytes()[-LOG_LIMIT:].decode(errors="replace").strip() if file.exists() else ""
    return text or f"{settings.runtime} ended with {status}; is it installed? run `hotdesk setup`"
