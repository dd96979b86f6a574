"""Non-blocking sockets under anyio: accept, read, write, and who is at the other end."""

from __future__ import annotations

import socket
import struct

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
