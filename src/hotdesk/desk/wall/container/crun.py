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
_STAND_BY = """set -e
file=$1
shift
until [ "$1" = -- ]; do echo 0 >"$1"; shift; done
shift
read -r word
[ "$word" = 1 ]
if [ -n "$file" ]; then [ ! -L "$file" ]; exec 3<"$file"; fi
exec "$@"
"""
"""Joins a desk's cgroup, waits for `GO` and becomes the runtime. Its arguments: a file to open as descriptor 3 or an
empty one, the files that a process joins by, `--`, and the runtime's command line.

A shell script, because a shell starts in 1 ms of processor time and forking a keeper costs 5.
"""
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
    Of the keeper's descriptors it gets only `passed`, as number 3: all others are closed when a program is executed.
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
    file, fds = (str(passed), []) if isinstance(passed, Path) else ("", [] if passed is None else [passed.fileno()])
    script = ["sh", "-c", _STAND_BY, "sh", file, *room.cgroup.list_joining_files(), "--", *argv]
    environment = {"PATH": PATH, SCRATCH: str(room.folder)}
    (stdin_r, go), (console_r, console_w) = syscalls.make_two_pipes()
    places = [
        (os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate((stdin_r, console_w, console_w, *fds))
    ]
    try:
        child = os.posix_spawn("/bin/sh", script, environment, file_actions=places, setsigdef=_DEFAULTED)
    except OSError:
        syscalls.close_all((go, console_r))
        raise
    finally:
        syscalls.close_all((stdin_r, console_w))
    return Standby(child, go, console_r, lambda: GO + b"\n")


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
