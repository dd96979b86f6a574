"""Start the OCI runtime: to run a desk, or to start root's guest inside one."""

from __future__ import annotations

import os
import shutil
import signal
import socket

from hotdesk.config import Config
from hotdesk.desk.room.layout import PATH
from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.seam import GO, Standby
from hotdesk.linux import syscalls
from hotdesk.linux.keyring import is_refused

_DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
SCRATCH = "_LIBCONTAINER_STATEDIR"
"""Tells crun where to put the copy of itself it starts from; killed at that moment it would leave one in /tmp."""
_LOG_LIMIT = 4096
LOG = "runtime.log"
ROOT_LOG = "root.log"


def stand_by(settings: Config, room: Room) -> Standby:
    """Make a process join the desk's cgroup, to run the desk from its bundle once that is written.

    Joining waits for the whole machine (5 ms and more): meanwhile the room can be made.
    """
    folder = room.folder
    keyring = ("--no-new-keyring",) if is_refused() else ()  # what refuses it to the runtime refuses it to the desk
    arguments = ("--detach", *keyring, f"--bundle={folder / 'bundle'}", f"--pid-file={folder / 'pid'}")
    return begin(settings, room, "run", *arguments)


def enter(settings: Config, room: Room, sudo: socket.socket) -> int:
    """Start root's guest in a desk, with the socket `sudo` calls at; return the runtime's pid.

    The whole process object is handed over: a runtime's plain exec would give every capability, without the filter.
    """
    log, process = room.folder / ROOT_LOG, room.folder / "bundle/root.json"
    log.unlink(missing_ok=True)
    arguments = ("--detach", f"--process={process}", f"--pid-file={room.folder / 'root.pid'}", "--preserve-fds=1")
    pid, console = begin(settings, room, "exec", *arguments, log=str(log), passed=sudo).run()
    os.close(console)
    return pid


def begin(
    settings: Config, room: Room, verb: str, *arguments: str, log: str = "", passed: socket.socket | None = None
) -> Standby:
    """Make a process join the desk's cgroup, which starts the runtime there on command.

    Its stdio are pipes: a runtime gives fds 0 to 2 to the desk's user, and a host file there would be the desk's.
    """
    argv = [
        protect_runtime(settings),
        f"--root={settings.run / 'runtime'}",
        f"--log={log or room.folder / LOG}",
        "--cgroup-manager=disabled",
        verb,
        *arguments,
        room.desk,
    ]
    (stdin_r, go), (console_r, console_w) = syscalls.make_two_pipes()
    try:
        child = os.fork()
    except OSError:
        syscalls.close_all((stdin_r, go, console_r, console_w))
        raise
    if child == 0:
        try:
            os.close(go)
            room.cgroup.join()
            if os.read(stdin_r, len(GO)) != GO:
                os._exit(0)
            for source, target in ((stdin_r, 0), (console_w, 1), (console_w, 2)):
                os.dup2(source, target)
            if passed is not None:
                os.dup2(passed.fileno(), 3)
            for number in _DEFAULTED:
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], argv, {"PATH": PATH, SCRATCH: str(room.folder)})  # noqa: S606 - no shell
        finally:
            os._exit(127)
    syscalls.close_all((stdin_r, console_w))
    return Standby(child, go, console_r)


def protect_runtime(settings: Config) -> str:
    """Return the runtime as a desk may see it: crun through a read-only mount.

    crun makes such a mount for itself and starts again from it, at every start; one made once serves them all.
    """
    if os.path.basename(settings.runtime) != "crun":
        return settings.runtime
    at = settings.run / "private/crun"
    if not at.exists():
        found = shutil.which(settings.runtime, path=PATH)
        if found is None:
            return settings.runtime
        at.touch(0o400)
        try:
            syscalls.mount_readonly(found, str(at))
        except OSError:
            at.unlink()
            raise
    return str(at)


def describe_failure(settings: Config, room: Room, status: int, log: str) -> str:
    file = room.folder / log
    text = file.read_bytes()[-_LOG_LIMIT:].decode(errors="replace").strip() if file.exists() else ""
    return text or f"{settings.runtime} ended with status {status}; if it is not installed, run `hotdesk setup`"
