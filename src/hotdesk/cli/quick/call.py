"""Calls to an owner's control socket, which become links to a desk."""

from __future__ import annotations

import _socket
import os
import stat
import sys

from hotdesk.cli.quick.place import MAX_PATH_BYTES
from hotdesk.cli.quick.signals import EndingSignals
from hotdesk.linux.ownership import is_private
from hotdesk.linux.pace import scale_seconds

OPEN_SECONDS = 60.0
"""Seconds an owner may take to reply: on a busy machine a desk waits for its turn."""
_MAX_HEAD_BYTES = 1 << 14
_END = b"\r\n\r\n"


def dial(path: str) -> _socket.socket | None:
    """Connect to a socket that only this user can have created; return `None` if there is no such owner."""
    if len(os.fsencode(path)) > MAX_PATH_BYTES or not (is_private(os.path.dirname(path)) and is_own_socket(path)):
        return None
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(scale_seconds(OPEN_SECONDS))
        sock.connect(path)
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    except OSError:
        sock.close()
        return None
    if int.from_bytes(credentials[4:8], sys.byteorder) != os.geteuid():
        sock.close()
        return None
    return sock


def is_own_socket(path: str) -> bool:
    """Return whether a path is a socket of this user, not a link, and closed to other users."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


def upgrade(
    sock: _socket.socket, signals: EndingSignals, target: str, body: bytes | None = None
) -> tuple[dict[str, str], bytes] | None:
    """Turn a connection into a link; return the headers and the bytes after them, or `None` if refused."""
    return read_answer(sock, signals) if ask(sock, target, body) else None


def ask(sock: _socket.socket, target: str, body: bytes | None = None) -> bool:
    """Send the request that turns a connection into a link; return whether it was sent."""
    method = "GET" if body is None else "POST"
    head = f"{method} {target} HTTP/1.1\r\nHost: hotdesk\r\nConnection: Upgrade\r\nUpgrade: hotdesk-link\r\n"
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    try:
        sock.sendall(f"{head}{length}\r\n".encode() + (body or b""))
    except OSError:
        return False
    return True


def read_answer(sock: _socket.socket, signals: EndingSignals) -> tuple[dict[str, str], bytes] | None:
    """Read an owner's reply; return its headers and the bytes after it, or `None` if it refused or is gone."""
    answer = b""
    try:
        while _END not in answer:
            data = sock.recv(1 << 16) if signals.wait(sock.fileno(), scale_seconds(OPEN_SECONDS)) else b""
            if not data or len(answer) > _MAX_HEAD_BYTES:
                return None
            answer += data
    except OSError:
        return None
    lines, _, rest = answer.partition(_END)
    status, *fields = lines.decode("latin-1").split("\r\n")
    if not status.startswith("HTTP/1.1 101 "):
        return None
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}, rest
