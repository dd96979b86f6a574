"""Send and read the bytes of a link on a socket that never blocks."""

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
        out.clear()  # reading the socket tells why


def read_some(sock: _socket.socket) -> bytes | None:
    """Read once; None: there is nothing yet. Empty: the other end is gone."""
    try:
        return sock.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""
