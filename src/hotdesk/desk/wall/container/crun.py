"""Start the OCI runtime: to run a desk, or to start the guest for root in one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path

from hotdesk.config import Config
from hotdesk.desk.room.layout import PATH
from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.seam import GO, Standby
from hotdesk.linux import syscalls
from hotdesk.linux.keyring import is_refused

_DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
SCRATCH = "_LIBCONTAINER_STATEDIR"
"""The variable that names the folder for crun's copy of itself; if killed then, it would leave the copy in /tmp."""
_LOG_LIMIT = 4096
LOG = "runtime.log"
ROOT_LOG = "root.log"


def stand_by(settings: Config, room: Room, passed: Path | None = None) -> Standby:
    """Start a process that joins the desk's cgroup, and later runs the desk from its bundle.

    Joining waits for the whole machine (5 ms and more), during which the room is made. A file at `passed` is opened
    for reading then, and is descriptor 3 of the desk's first process.
    """
    folder = room.folder
    keyring = ("--no-new-keyring",) if is_refused() else ()  # the same filter refuses keyrings to the desk
    arguments = ("--detach", *keyring, f"--bundle={folder / 'bundle'}", f"--pid-file={folder / 'pid'}")
    if passed is not None:
        arguments = (*arguments, "--preserve-fds=1")
    return begin(settings, room, "run", *arguments, passed=passed)


def enter(settings: Config, room: Room, sudo: socket.socket) -> int:
    """Start the guest for root in a desk, with the socket that `sudo` calls; return the runtime's pid.

    The complete process object is passed: a runtime's plain exec would give every capability, without the filter.
    """
    log, process = room.folder / ROOT_LOG, room.folder / "bundle/root.json"
    log.unlink(missing_ok=True)
    arguments = ("--detach", f"--process={process}", f"--pid-file={room.folder / 'root.pid'}", "--preserve-fds=1")
    pid, console = begin(settings, room, "exec", *arguments, log=str(log), passed=sudo).run()
    os.close(console)
    return pid


def begin(
    settings: Config,
    room: Room,
    verb: str,
    *arguments: str,
    log: str = "",
    passed: socket.socket | Path | None = None,
) -> Standby:
    """Start a process that joins the desk's cgroup, and executes the runtime there on command.

    Its stdio are pipes: a runtime gives descriptors 0 to 2 to the desk's user, who could otherwise use a host file.
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
            if isinstance(passed, Path):
                os.dup2(os.open(passed, os.O_RDONLY | os.O_NOFOLLOW), 3)
            elif passed is not None:
                os.dup2(passed.fileno(), 3)
            for number in _DEFAULTED:
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(argv[0], argv, {"PATH": PATH, SCRATCH: str(room.folder)})  # noqa: S606 - no shell
        finally:
            os._exit(127)
    syscalls.close_all((stdin_r, console_w))
    return Standby(child, go, console_r)


def protect_runtime(settings: Config) -> str:
    """Return the path of a runtime that a desk cannot modify: crun through a read-only mount.

    crun makes such a mount at every start and executes itself from it; one mount made here serves all desks.
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
