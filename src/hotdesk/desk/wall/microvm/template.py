"""Templates: virtual machines that were booted once, from which desks start. Where they are stored, and how they are
made.

A template belongs to one image and its files, emulator, kernel, guest, processor, number of processors and memory size,
all of which its key covers, and is used for a day. The first desk of a key boots, saves itself, and passes the saved
machine on by file descriptors. It contains only what the image and hotdesk's own code did: no program of a desk has run
yet, and it has no data of the requested desk. The host never parses it, only copies it; machines of the same key map
it.
"""

from __future__ import annotations

import array
import fcntl
import hashlib
import os
import select
import signal
import socket
import stat
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from hotdesk.config import MIB
from hotdesk.desk.room.ext4 import list_extents
from hotdesk.linux import syscalls
from hotdesk_vmm.task import RAM, STATE

MAX_AGE_S = 86400.0
"""Seconds a template is used. All its machines share the same address layout, so a new one is made each day."""
MAX_TEMPLATES = 8
"""Maximum templates of one image, because each memory size needs one."""
MAX_STATE = 16 * MIB
"""Maximum bytes of a machine's state beside its memory; half a MiB is typical."""
HAND_OVER_TIMEOUT_S = 240.0
COPY_TIMEOUT_S = 60
_CHUNK = MIB
_DEFAULTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


def compute_key(facts: Iterable[object], sources: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256("\0".join(map(str, facts)).encode())
    for name, data in sorted(sources.items()):
        digest.update(f"\0{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:40]


def find(place: Path, now: float | None = None) -> bool:
    try:
        written = (place / STATE).stat().st_mtime
    except OSError:
        return False
    return _is_usable(written, now)


def open_files(place: Path) -> list[int]:
    """Open memory and state of one and the same machine, which may be replaced meanwhile; empty if there is none."""
    fds: list[int] = []
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return fds
    try:
        for name in (RAM, STATE):
            fds.append(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder))
        if _is_usable(os.fstat(fds[1]).st_mtime):
            return fds
    except OSError:  # it was removed meanwhile
        pass
    finally:
        os.close(folder)
    syscalls.close_all(fds)
    return []


def _is_usable(written: float, now: float | None = None) -> bool:
    return 0 <= (time.time() if now is None else now) - written < MAX_AGE_S


def receive(place: Path, listener: socket.socket, caller: int, memory: int) -> int:
    """Start a process that waits for a machine of the user id `caller`, and stores it.

    It ends when it has one, or when the returned descriptor is closed.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    desk, ours = os.pipe()
    try:
        child = os.fork()
    except OSError:
        syscalls.close_all((desk, ours))
        raise
    if child:
        os.close(desk)
        return ours
    try:
        signal.set_wakeup_fd(-1)
        for number in _DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        syscalls.prctl(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        syscalls.close_but({listener.fileno(), desk})
        os.nice(5)
        ready, _, _ = select.select([listener.fileno(), desk], [], [], HAND_OVER_TIMEOUT_S)
        if listener.fileno() in ready:
            take(place, listener, caller, memory)
    finally:
        os._exit(0)


def take(place: Path, listener: socket.socket, caller: int, memory: int) -> None:
    call, _ = listener.accept()
    with call:
        call.settimeout(COPY_TIMEOUT_S)
        _, uid, _ = struct.unpack("=iII", call.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != caller:
            return
        fds = _receive_files(call)
        try:
            if len(fds) == 2:
                publish(place, fds, (memory, MAX_STATE))
        finally:
            syscalls.close_all(fds)
        call.send(b"1")


def _receive_files(call: socket.socket) -> list[int]:
    size = array.array("i").itemsize
    _, ancillary, _, _ = call.recvmsg(1, socket.CMSG_SPACE(2 * size), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) // size * size])
    return list(fds)


def publish(place: Path, fds: list[int], most: tuple[int, int]) -> None:
    """Copy a template and put it in its place. The folder of the copy is locked, so that nobody tidies it away."""
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    remove(fresh)  # a killed receiver had the same process id
    fresh.mkdir(mode=0o700)
    lock = _lock(fresh)
    try:
        for fd, name, size in zip(fds, (RAM, STATE), most, strict=True):
            copy(fd, fresh / name, size)
        old = place.with_name(f"{fresh.name}.old")
        with suppress(FileNotFoundError):
            place.rename(old)
            remove(old)
        fresh.rename(place)
        tidy(place.parent)
    finally:
        remove(fresh)
        if lock is not None:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder, until the returned descriptor is closed; `None` if a process has locked or removed it."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _remove_abandoned(folder: Path) -> None:
    """Remove copies whose receiver was killed. A new one has no lock for a moment, so it is left alone at first."""
    for place in folder.glob(".*"):
        try:
            age = time.time() - place.lstat().st_mtime
        except FileNotFoundError:  # another process removed it
            continue
        if age > HAND_OVER_TIMEOUT_S and (lock := _lock(place)) is not None:
            try:
                remove(place)
            finally:
                os.close(lock)


def tidy(folder: Path) -> None:
    """Remove an image's expired templates, the oldest ones above the limit, and what killed receivers left."""
    _remove_abandoned(folder)
    usable = [place for place in folder.glob("[!.]*") if place.is_dir()]
    usable.sort(key=lambda place: (find(place), (place / STATE).stat().st_mtime if find(place) else 0.0))
    for place in usable:
        if not find(place) or place in usable[:-MAX_TEMPLATES]:
            remove(place)


def copy(source: int, file: Path, most: int) -> None:
    """Copy the data of a file without its holes. The file comes from a desk: nothing but its bytes is used."""
    info = os.fstat(source)
    if not stat.S_ISREG(info.st_mode) or info.st_size > most:
        raise OSError(f"the template of the virtual machine is not a regular file, or has more than {most} bytes")
    with file.open("wb") as out:
        out.truncate(info.st_size)
        for at, end in list_extents(source, info.st_size):
            while at < end:
                data = os.pread(source, min(_CHUNK, end - at), at)
                if not data:
                    return
                at += os.pwrite(out.fileno(), data, at)
    file.chmod(0o400)


def remove(place: Path) -> None:
    """Remove a template. A missing one is no error. Machines that have it mapped keep it."""
    for name in (RAM, STATE):
        (place / name).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        place.rmdir()
