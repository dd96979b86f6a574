"""Calls to the desks of a remote server by its API key: each is a WebSocket behind a socket like an owner's."""

from __future__ import annotations

import json
import os
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI
from websockets.sync.client import ClientConnection, connect

from hotdesk.errors import BriefError

KEY = "HOTDESK_API_KEY"
"""Environment variable with the key; a command line could be read by other users."""
PREFIX = "/api/v1"
OPENED = "open"
READ = 1 << 15
OPEN_SECONDS = 30.0
MAX_MESSAGE_BYTES = 1 << 20
_END = b"\r\n\r\n"
_MAX_HEAD_BYTES = 1 << 14
_LOCAL = ("localhost", "127.0.0.1", "::1")


class ServerDialer:
    """Connects to one server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BriefError(f"--server must be an address such as https://desks.example.test:3700, not {url!r}")
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise BriefError(
                "--server must use https, unless the server is on this machine: http would send the key unencrypted"
            )
        self.key = os.environ.get(KEY, "")
        if not self.key:
            raise BriefError(f"no key for {url}: set {KEY} to a key that `hotdesk key new` created on the server")
        self.base = f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{PREFIX}"

    def __call__(self) -> socket.socket:
        """Return a socket to the server; as with an owner, the first request on it names desk and stream."""
        ours, theirs = socket.socketpair()
        threading.Thread(target=self.carry, args=(theirs,), daemon=True).start()
        return ours

    def carry(self, sock: socket.socket) -> None:
        with sock, suppress(OSError):
            try:
                with self.open(*read_request(sock)) as line:
                    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
                    threading.Thread(target=_send_up, args=(sock, line), daemon=True).start()
                    _pass_down(sock, line)
                sock.shutdown(socket.SHUT_RDWR)  # closing alone is not noticed while the other thread reads
            except BriefError as e:
                sock.sendall(b"HTTP/1.1 400 Error\r\n\r\n" + json.dumps({"text": str(e)}).encode())

    def open(self, desk: str, to: str) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self.key}"}
        try:
            line = connect(
                f"{self.base}/desks/{desk}/stream?to={to}",
                additional_headers=headers,
                compression=None,
                open_timeout=OPEN_SECONDS,
                max_size=MAX_MESSAGE_BYTES,
            )
        except InvalidHandshake as e:
            raise BriefError(
                f"the server refused the connection: {e}; check the key in {KEY}, and that desk {desk} is open"
            ) from e
        except (OSError, InvalidURI) as e:
            raise BriefError(
                f"the server at {self.base} cannot be reached: {e}; check the address after --server"
            ) from e
        try:
            if line.recv(OPEN_SECONDS) == OPENED:
                return line
            why = "malformed reply"
        except TimeoutError:
            why = f"no reply within {OPEN_SECONDS:.0f} s"
        except ConnectionClosed as e:
            why = e.rcvd.reason if e.rcvd is not None else "the connection was closed"
        line.close()
        raise BriefError(f"the server did not open a stream to desk {desk}: {why}; try again")


def read_request(sock: socket.socket) -> tuple[str, str]:
    """Parse the request of a call; return the desk, and its stream: a link, root's link, or a port."""
    head = b""
    while _END not in head and len(head) < _MAX_HEAD_BYTES and (data := sock.recv(READ)):
        head += data
    parts = head.partition(b" HTTP/")[0].decode("ascii", "replace").split("/")
    if len(parts) not in (4, 5) or not parts[2].isalnum():
        raise BriefError("with --server, only SSH sessions and forwarded ports are supported")
    return parts[2], parts[-1]


def _send_up(sock: socket.socket, line: ClientConnection) -> None:
    with suppress(OSError, ConnectionClosed):
        while data := sock.recv(READ):
            line.send(data)
        line.send(b"")


def _pass_down(sock: socket.socket, line: ClientConnection) -> None:
    """Pass on data from the server, then its end, until the server closes the connection."""
    with suppress(OSError, ConnectionClosed):
        for message in line:
            if isinstance(message, bytes) and message:
                sock.sendall(message)
            else:
                sock.shutdown(socket.SHUT_WR)
