"""Start runsc without privileges: to run a desk, or to start the guest for root in one.

Four kinds of processes, all in the desk's cgroup:

- the *launcher*, a child of the keeper, prepares the others and ends when the desk is up;
- the *supervisor* is the first process of the desk's pid namespace and waits for the end of the sentry. It runs as
  a user id that neither the desk's programs nor its sentry can have, and has no capability;
- *runsc* is root of the desk's user namespace without privileges outside. Its root directory is the room's folder,
  its network namespace is the desk's: it sees no file, process or socket of the host. It ends when the desk is up;
- *sentry* and *gofer*, which runsc starts, are confined further by runsc itself (`prove.py`).
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from hotdesk.dataclass import dataclass
from hotdesk.desk.room import cpu_set
from hotdesk.desk.room.room import Room
from hotdesk.desk.wall.gvisor.bundle import COVERED
from hotdesk.desk.wall.seam import GO, Standby
from hotdesk.linux import syscalls, uids

_DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
PROGRAM, STATE, BUNDLE, SYSTEM = "runsc", "s", "bundle", "system"
"""Names in the room's folder: the program, its state (short, as a socket's path is at most 107 bytes), the bundle, and
the supervisor's view of the host's system.
"""
CONTAINER = "d"
"""The desk's container name in runsc."""
IMAGE = "w/memory"
"""The folder with a desk's saved memory, in the desk's own layer."""
RENAME = "rename.json"
"""In the bundle: the process that gives a fork its own host name."""
LOG, ROOT_LOG = "log", "root.log"
PID, ROOT_PID = "pid", "root.pid"
_MAX_LOG_BYTES = 4096
_MAX_WORD_BYTES = 64
_FAILED = 125
"""Exit code of a launcher that could not prepare runsc's environment; the reason is in the file below."""
_FAILURE = "launch.log"
_ENTER_TIMEOUT_S = 19.0
_POLL_INTERVAL_S = 0.002
WAIT_FOR_END = ("/bin/sh", "-c", "read -r line")
"""The supervisor's program: its standard input ends with the sentry, which holds the other end of the pipe."""
CAP_LAST = 63


@dataclass(frozen=True, slots=True)
class Runsc:
    """This machine's runsc, and its options."""

    program: str
    platform: str

    def build_flags(self, log: str) -> list[str]:
        """Return the options that come before a command."""
        return [
            f"/{PROGRAM}",
            f"--root=/{STATE}",
            f"--log=/{STATE}/{log}",
            f"--platform={self.platform}",
            "--network=none",
            "--host-uds=open",
            "--overlay2=none",
            "--directfs=true",
            "--file-access=shared",
            "--ignore-cgroups",
            "--oci-seccomp",
        ]


Restored: TypeAlias = Callable[[Runsc, Room, int], Callable[[], bool]]
"""Prepares, while runsc starts, the last step for a desk that starts from saved memory. The returned function executes
that step, and returns whether it succeeded.
"""


def stand_by(runsc: Runsc, room: Room, restored: Restored) -> Standby:
    """Start a process that joins the desk's cgroup, and runs the desk from its bundle once the room is complete.

    `restored` is called in that process, with the desk's user namespace, if the desk starts from saved memory.
    """
    (stdin, go), (console, output) = syscalls.make_two_pipes()
    try:
        launcher = os.fork()
    except OSError:
        syscalls.close_all((stdin, go, console, output))
        raise
    if launcher == 0:
        try:
            leave_keeper()
            os.close(go)
            room.cgroup.join()
            word = os.read(stdin, _MAX_WORD_BYTES)
            if word[:1] != GO:
                os._exit(0)
            userns, netns = (os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in word[1:].decode().split())
            syscalls.close_but({0, 1, 2, stdin, output, userns, netns})
            run(runsc, room, userns, netns, (stdin, output, output), restored)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    syscalls.close_all((stdin, output))
    return Standby(launcher, go, console, lambda: GO + _name_namespaces(room))


def _name_namespaces(room: Room) -> bytes:
    """Return the paths by which a child of the keeper can open namespaces that were made after it was forked."""
    return f"/proc/{os.getpid()}/fd/{room.userns} /proc/{os.getpid()}/fd/{room.netns}".encode()


def leave_keeper() -> None:
    """Reset signal handling: the number of the keeper's wakeup descriptor may soon belong to another file."""
    signal.set_wakeup_fd(-1)
    for number in _DEFAULTED:
        signal.signal(number, signal.SIG_DFL)


# -- in the launcher -------------------------------------------------------------------------------------------


def run(
    runsc: Runsc,
    room: Room,
    userns: int,
    netns: int,
    streams: Sequence[int],
    restored: Restored,
) -> None:
    """Run the desk; exit with runsc's code. `restored` is for a desk that starts from saved memory."""
    os.sched_setaffinity(0, cpu_set.choose(room.spec.cpus, room.base // uids.WIDTH))  # the sentry counts these CPUs
    syscalls.setns(netns, syscalls.CLONE_NEWNET)
    syscalls.unshare(syscalls.CLONE_NEWPID)
    status_r, status_w = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        try:
            os.close(status_r)
            supervise(runsc, room, userns, streams, status_w)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    os.close(status_w)
    finish = restored(runsc, room, userns) if room.memory else None
    code = int(os.read(status_r, 8) or _FAILED)
    if code == 0 and finish is not None:
        code = 0 if finish() else _FAILED
    if code == 0:
        _write_pid(room, PID, supervisor)
    os._exit(code)


def start_inside(runsc: Runsc, room: Room, userns: int, log: str, arguments: list[str]) -> int:
    """Start a runsc without capabilities that communicates with the desk's sentry; return its pid.

    Its output goes to a pipe that no process reads: the reason of a failure is in its log.
    """
    (stdin, unused), (_, output) = syscalls.make_two_pipes()
    os.close(unused)
    child = os.fork()
    if child == 0:
        try:
            argv = [*runsc.build_flags(log), *arguments]
            become(runsc, room, userns, (stdin, output, output), argv, capable=False)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    syscalls.close_all((stdin, output))
    return child


def wait(child: int) -> int:
    """Wait for a child; return its exit code, which is never negative."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else _FAILED


def supervise(runsc: Runsc, room: Room, userns: int, streams: Sequence[int], status: int) -> None:
    """Run as the desk's first process: have runsc start the desk, report its exit code, await the sentry's end."""
    life_r, life_w = os.pipe()
    os.fchown(life_w, room.base, room.base)  # runsc opens it by its path in /proc
    child = os.fork()
    if child == 0:
        try:
            os.set_inheritable(life_w, True)
            argv = [*runsc.build_flags(LOG), f"--panic-log=/proc/self/fd/{life_w}"]
            argv += ["restore", f"--image-path=/{IMAGE}"] if room.memory else ["run"]
            argv += ["--detach", f"--bundle=/{BUNDLE}", CONTAINER]
            become(runsc, room, userns, streams, argv)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    os.close(life_w)
    _leave_rooms(room)
    drop_privileges(room.base + uids.SUPERVISOR)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(status, b"%d" % (code if code >= 0 else _FAILED))
    if code == 0:
        os.dup2(life_r, 0)
        os.closerange(1, 3)
        os.execve(WAIT_FOR_END[0], WAIT_FOR_END, {})  # noqa: S606 - a fixed program
    os._exit(0)


def _leave_rooms(room: Room) -> None:
    """Keep only the mounts of the host's system: a long-lived process must not keep a desk's disk mounted."""
    at = str(room.folder / SYSTEM)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    for folder in ("/", *(each for each in ("/usr", "/bin", "/lib", "/lib64") if os.path.ismount(each))):
        syscalls.mount_readonly(folder, at if folder == "/" else at + folder)
    syscalls.pivot_root(at)


def drop_privileges(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def become(
    runsc: Runsc, room: Room, userns: int, streams: Sequence[int], argv: list[str], *, capable: bool = True
) -> None:
    """Execute runsc as root of the desk's user namespace, in a file system that contains only the room."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    failure = os.open(room.folder / _FAILURE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        confine(runsc, room, userns, capable=capable)
        os.execve(argv[0], argv, {"PATH": "/"})  # noqa: S606 - no shell
    except OSError as e:
        os.write(failure, str(e).encode())
        os._exit(_FAILED)


def confine(runsc: Runsc, room: Room, userns: int, *, capable: bool) -> None:
    """Become root of the desk's user namespace, without privileges outside. Without `capable`, children get none."""
    enter_private_mounts(runsc, room)
    os.setgroups([])
    syscalls.setns(userns, syscalls.CLONE_NEWUSER)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    for capability in () if capable else range(CAP_LAST + 1):
        syscalls.drop_bounding(capability)
    if not capable:
        syscalls.drop_capabilities()
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def enter_private_mounts(runsc: Runsc, room: Room) -> None:
    """Make the room's folder the root directory, with the desk's own processes in /proc, and no other mount."""
    at = str(room.folder)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount_readonly(runsc.program, f"{at}/{PROGRAM}")
    syscalls.mount(f"{at}/proc", f"{at}{COVERED}", None, syscalls.MS_BIND)
    syscalls.mount("proc", f"{at}/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    syscalls.pivot_root(at)


def fail(room: Room, error: BaseException) -> None:
    with suppress(OSError), open(room.folder / _FAILURE, "w") as file:
        file.write(str(error))
    os._exit(_FAILED)


def _write_pid(room: Room, name: str, pid: int) -> None:
    """Write a pid for the keeper, in a folder that only it can write."""
    (room.folder / name).write_text(str(pid))


# -- the guest for root ----------------------------------------------------------------------------------------


def enter(runsc: Runsc, room: Room, supervisor: int) -> int:
    """Start the guest for root in a desk; return the pid of the launcher, which ends when it is up.

    A runsc without capabilities remains while the guest for root runs; its exit tells the keeper that the guest ended.
    """
    (room.folder / ROOT_PID).unlink(missing_ok=True)
    launcher = os.fork()
    if launcher == 0:
        try:
            leave_keeper()
            room.cgroup.join()
            pidns = os.open(f"/proc/{supervisor}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            syscalls.close_but({0, 1, 2, pidns, room.userns, room.netns})
            syscalls.setns(room.netns, syscalls.CLONE_NEWNET)
            syscalls.setns(pidns, syscalls.CLONE_NEWPID)
            follow(runsc, room)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    return launcher


def follow(runsc: Runsc, room: Room) -> None:
    """Make runsc start the guest for root; exit once it is up, or with runsc's code."""
    mark = room.folder / STATE / ROOT_PID
    mark.unlink(missing_ok=True)
    (stdin, unused), (_, output) = syscalls.make_two_pipes()
    os.close(unused)
    child = os.fork()
    if child == 0:
        try:
            argv = [
                *runsc.build_flags(ROOT_LOG),
                "exec",
                f"--process=/{BUNDLE}/root.json",
                f"--pid-file=/{STATE}/{ROOT_PID}",
            ]
            become(runsc, room, room.userns, (stdin, output, output), [*argv, CONTAINER], capable=False)
        except BaseException as e:  # noqa: BLE001 - in a forked child: it must not continue the keeper's code
            fail(room, e)
    end = time.monotonic() + _ENTER_TIMEOUT_S
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            os._exit(max(1, os.waitstatus_to_exitcode(status)))
        if mark.exists():
            _write_pid(room, ROOT_PID, child)
            os._exit(0)
        time.sleep(_POLL_INTERVAL_S)
    os.kill(child, signal.SIGKILL)
    os._exit(_FAILED)


# -- in the keeper ---------------------------------------------------------------------------------------------


def describe_failure(room: Room, status: int, log: str) -> str:
    """Return the error of runsc. Its log is in a folder that runsc can write, so only a regular file is read there."""
    failure = room.folder / _FAILURE
    if status == _FAILED and failure.exists() and (text := failure.read_text(errors="replace")):
        return f"runsc could not be started: {text[:500]}"
    text = read_log(room, log).strip()
    return f"runsc ended with status {status}: {text[-500:]}" if text else f"runsc ended with status {status}"


def read_log(room: Room, log: str) -> str:
    """Return the beginning of runsc's log; empty if that is not a regular file."""
    try:
        fd = os.open(room.folder / STATE / log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(fd, "rb") as file:
        is_plain = stat.S_ISREG(os.fstat(fd).st_mode)
        return file.read(_MAX_LOG_BYTES).decode(errors="replace") if is_plain else ""
