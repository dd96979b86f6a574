"""Non-blocking sockets under anyio: accept, read, write, and who is at the other end."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

import anyio

READ = 1 << 16


async def accept(listener: socket.socket) -> socket.socket:
    """Wait for one call."""
    while True:
        try:
            return listener.accept()[0]
        except BlockingIOError:
            await anyio.wait_readable(listener)


async def receive(sock: socket.socket) -> bytes:
    """Read what is there; nothing at the end."""
    while True:
        try:
            return sock.recv(READ)
        except BlockingIOError:
            await anyio.wait_readable(sock)


async def send(sock: socket.socket, data: bytes) -> None:
    """Write everything."""
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            await anyio.wait_writable(sock)


def peer(sock: socket.socket) -> tuple[int, int]:
    """Give the pid and uid of whoever is at the other end of a unix socket."""
    pid, uid, _ = struct.unpack("=iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def listen(path: Path, mode: int = 0o600) -> socket.socket:
    """Listen at a path, in place of a dead owner's socket there."""
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = path.with_name(f".{os.getpid()}")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fresh.unlink(missing_ok=True)
        listener.bind(f"/proc/self/fd/{folder}/{fresh.name}")  # a socket's path is at most 107 bytes
        os.chmod(fresh, mode)
        listener.listen(64)
        fresh.replace(path)
    finally:
        os.close(folder)
    listener.setblocking(False)
    return listener
