"""Have a machine's supervisor save it with its memory to a file of the desk's layer, and find the file for a copy.

The keeper's child passes the supervisor a file that is open for writing, and reads one byte for an answer: the emulator
and its supervisor may have been taken over by the desk.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
from pathlib import Path

from hotdesk.desk.room.room import Room
from hotdesk.desk.room.rootfs import MEMORY
from hotdesk.desk.wall.seam import GO, MemoryWriter
from hotdesk.errors import KeeperError
from hotdesk.linux import syscalls
from hotdesk_vmm.task import FULL, MEMORY_SOCKET, RESTLESS, SAVED

MACHINE, KEY = "machine", "key"
"""Names in the folder of a desk's memory: the saved machine, and what it can be loaded by."""
_REASON = "memory.reason"
"""A file in the room's folder with the supervisor's answer."""
SAVE_TIMEOUT_S = 360.0
_CONTINUE_TIMEOUT_S = 130.0
_FAILED, _UNCALLED = b"0", b"u"
_DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)
_REASONS = {
    FULL: "the disk of the desk is full; delete files",
    _UNCALLED: "its virtual machine could not be asked to save it",
    RESTLESS: "a program does not stop, because it waits for its disk; wait until it has finished",
}
_UNKNOWN = "its virtual machine could not be saved, for an unknown reason"


def save(room: Room, key: str, *, stop: bool) -> MemoryWriter:
    reason = os.open(room.folder / _REASON, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    fds: tuple[int, ...] = ()
    try:
        (report_r, report_w), (go_r, go_w) = syscalls.make_two_pipes()
        fds = (report_r, report_w, go_r, go_w)
        child = os.fork()
    except OSError:
        syscalls.close_all((reason, *fds))
        raise
    if child == 0:
        try:
            _leave_keeper({room.netns, report_w, go_r, reason})
            _start(room, key, (report_w, go_r, reason), stop=stop)
        finally:
            os._exit(0)
    syscalls.close_all((report_w, go_r, reason))
    return MemoryWriter(child, report_r, go_w)


# -- in the child ----------------------------------------------------------------------------------------------


def _leave_keeper(fds: set[int]) -> None:
    signal.set_wakeup_fd(-1)
    for number in _DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
    syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.close_but(fds)


def _start(room: Room, key: str, fds: tuple[int, int, int], *, stop: bool) -> None:
    try:
        file = _make_files(room.layers.layer / MEMORY, key)
        syscalls.setns(room.netns, syscalls.CLONE_NEWNET)
        syscalls.drop_capabilities()
    except OSError as e:
        _give_up(e, *fds)
    else:
        ask(file, *fds, stop=stop)


def _give_up(error: OSError, report: int, go: int, reason: int) -> None:
    """Report that the machine was not called, so that it runs on."""
    os.write(reason, FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else _UNCALLED)
    os.write(report, _FAILED)
    os.read(go, 1)
    os.write(report, GO)


def _make_files(folder: Path, key: str) -> int:
    (folder / KEY).write_text(key)
    return os.open(folder / MACHINE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def ask(file: int, report: int, go: int, reason: int, *, stop: bool, at: str = MEMORY_SOCKET) -> None:
    """Have the machine saved, wait until the files are saved as well, and have programs continue.

    With `stop` they continue only if the machine was not saved.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as call:
        call.settimeout(SAVE_TIMEOUT_S)
        try:
            call.connect(at)
        except OSError as e:
            os.close(file)
            _give_up(e, report, go, reason)
            return
        answer = b""
        try:
            socket.send_fds(call, [b"1"], [file])
            answer = call.recv(1)
        except OSError:
            pass
        if not stop:
            os.close(file)  # so that its space is free once the keeper has removed it
        os.write(reason, answer)
        os.write(report, GO if answer == SAVED else _FAILED)
        os.read(go, 1)
        if answer != SAVED:
            os.write(report, GO if answer else _FAILED)
        elif stop:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)  # the host's memory is wanted, not its cache
        else:
            os.write(report, GO if _continue(call) else _FAILED)


def _continue(call: socket.socket) -> bool:
    call.settimeout(_CONTINUE_TIMEOUT_S)
    try:
        call.send(b"1")
        return call.recv(1) == SAVED
    except OSError:
        return False


# -- in the keeper ---------------------------------------------------------------------------------------------


def explain(room: Room) -> str:
    try:
        answer = (room.folder / _REASON).read_bytes()[:1]
    except OSError:
        return _UNKNOWN
    return _REASONS.get(answer, _UNKNOWN)


def get_path(room: Room) -> Path:
    """Return the path of the saved machine, also before the layer is mounted."""
    return room.folder / "w" / MEMORY / MACHINE


def check(room: Room, key: str) -> None:
    """Refuse a machine that was saved by another emulator or version, or with other disks, before it is loaded."""
    try:
        saved = (room.layers.layer / MEMORY / KEY).read_text()
    except OSError as e:
        raise KeeperError(f"the saved memory of the desk cannot be read: {e}") from e
    if saved != key:
        raise KeeperError(
            "the desk was saved by another version of hotdesk or its emulator (the image vmm), on another kind of "
            "processor, or with files of its image that were written again since, and cannot continue here; burn it "
            "and open another"
        )
