"""Sends and reads the bytes of a link on a non-blocking socket."""

from __future__ import annotations

import _socket

CHUNK = 1 << 16


def send_some(sock: _socket.socket, out: bytearray) -> None:
    try:
        while out:
            del out[: sock.send(out)]
    except BlockingIOError:
        pass
    except OSError:
        out.clear()  # reading the socket reports the reason


def read_some(sock: _socket.socket) -> bytes | None:
    """Read once; return `None` if there is no data yet, and `b""` if the other end is gone."""
    try:
        return sock.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
