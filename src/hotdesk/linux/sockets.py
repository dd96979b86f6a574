"""Non-blocking sockets under anyio: accept, read, write, and identify the peer."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import anyio

READ = 1 << 16
MAX_PATH_BYTES = 107
"""Maximum bytes of a unix socket's path."""


async def accept(listener: socket.socket) -> socket.socket:
    while True:
        try:
            return listener.accept()[0]
        except BlockingIOError:
            await anyio.wait_readable(listener)


async def receive(sock: socket.socket, most: int = READ) -> bytes:
    """Return available data, after waiting for some; empty at the end of the stream."""
    while True:
        try:
            return sock.recv(most)
        except BlockingIOError:
            await anyio.wait_readable(sock)


async def send(sock: socket.socket, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            await anyio.wait_writable(sock)


def get_peer(sock: socket.socket) -> tuple[int, int]:
    pid, uid, _ = struct.unpack("=iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


_LISTENING = 0x10000
"""The flag of a listening socket in /proc/net/unix (`__SO_ACCEPTCON`)."""


def is_answered(path: Path) -> bool:
    """Return whether a process listens at a socket's path. The file alone is no sign: it outlives a killed server."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its queue is full
        except PermissionError:
            return path.is_socket() and listens_in(path.parent)
        except OSError:
            return False
    return True


def listens_in(folder: Path) -> bool:
    try:
        lines = Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]
    except OSError:
        return True  # unknown: the caller's own attempt decides
    rows = (line.split(maxsplit=7) for line in lines)
    return any(len(row) == 8 and int(row[3], 16) & _LISTENING and Path(row[7]).parent == folder for row in rows)


def listen(path: Path, mode: int = 0o600) -> socket.socket:
    """Listen at a path, replacing the socket of a server that has ended."""
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = path.with_name(f".{os.getpid()}")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fresh.unlink(missing_ok=True)
        short = len(os.fsencode(fresh)) <= MAX_PATH_BYTES
        listener.bind(str(fresh) if short else f"/proc/self/fd/{folder}/{fresh.name}")  # `is_answered` reads the first
        os.chmod(fresh, mode)
        listener.listen(64)
        fresh.replace(path)
    finally:
        os.close(folder)
    listener.setblocking(False)
    return listener
