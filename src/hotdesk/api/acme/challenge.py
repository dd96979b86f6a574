"""Answers http-01 challenges at a public port: one path, few connections, little time."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress

MAX_CONNECTIONS = 32
MAX_HEAD_BYTES = 4096
HEAD_TIMEOUT_S = 5.0
_REQUEST = re.compile(rb"(?:GET|HEAD) (/[!-~]{0,2000}) HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"(?im)^host:[ \t]*([a-z0-9.-]{1,253})(?::[0-9]{1,5})?[ \t]*\r?$")
_PREFIX = "/.well-known/acme-challenge/"


class ChallengeListener:
    """Serves published challenge tokens, and redirects all other requests to https."""

    def __init__(self, listener: socket.socket, names: Collection[str], tls_port: int) -> None:
        self.listener = listener
        self.names = frozenset(names)
        self.port = "" if tls_port == 443 else f":{tls_port}"
        self.published: dict[str, str] = {}
        """Responses to challenges, by token."""
        self.free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            self.free.acquire()
            try:
                client, _ = self.listener.accept()
            except OSError:
                self.free.release()
                time.sleep(0.1)
                continue
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            with client, suppress(OSError):
                client.sendall(self.respond(read_head(client)))
        finally:
            self.free.release()

    def respond(self, head: bytes) -> bytes:
        found = _REQUEST.match(head)
        if found is None:
            return _write(400, "")
        path = found[1].decode()
        if path.startswith(_PREFIX):
            value = self.published.get(path.removeprefix(_PREFIX))
            return _write(404, "") if value is None else _write(200, value)
        host = _HOST.search(head)
        name = host[1].decode().lower() if host else ""
        if name not in self.names:
            return _write(404, "")
        return _write(308, "", f"Location: https://{name}{self.port}{path}\r\n")


def read_head(client: socket.socket) -> bytes:
    data, end = b"", time.monotonic() + HEAD_TIMEOUT_S
    while b"\r\n\r\n" not in data and len(data) < MAX_HEAD_BYTES:
        client.settimeout(max(0.01, end - time.monotonic()))
        if not (more := client.recv(MAX_HEAD_BYTES)):
            break
        data += more
    return data


def _write(status: int, body: str, header: str = "") -> bytes:
    words = {200: "OK", 308: "Permanent Redirect", 400: "Bad Request", 404: "Not Found"}
    head = f"HTTP/1.1 {status} {words[status]}\r\n{header}Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()
