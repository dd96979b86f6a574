"""Answers http-01 challenges at a public port: one path, few connections, little time."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network

from hotdesk.dataclass import dataclass

MAX_CONNECTIONS = 32
MAX_FROM_NETWORK = 4
"""Connections at once from one address; of IPv6, from the 64 bits that one customer has."""
MAX_HEAD_BYTES = 4096
HEAD_TIMEOUT_S = 5.0
_REQUEST = re.compile(rb"(?:GET|HEAD) (/[!-~]{0,2000}) HTTP/1\.[01]\r\n")
_HOST = re.compile(rb"(?im)^host:[ \t]*([a-z0-9.-]{1,253})(?::[0-9]{1,5})?[ \t]*\r?$")
_PREFIX = "/.well-known/acme-challenge/"


@dataclass(eq=False, slots=True)
class Visit:
    """A connection whose request is being read."""

    client: socket.socket
    network: str
    has_sent: bool = False

    def read_head(self) -> bytes:
        data, end = b"", time.monotonic() + HEAD_TIMEOUT_S
        while b"\r\n\r\n" not in data and len(data) < MAX_HEAD_BYTES:
            self.client.settimeout(max(0.01, end - time.monotonic()))
            if not (more := self.client.recv(MAX_HEAD_BYTES)):
                break
            self.has_sent = True
            data += more
        return data


class ChallengeListener:
    """Serves published challenge tokens, and redirects all other requests to https."""

    def __init__(self, listener: socket.socket, names: Collection[str], tls_port: int) -> None:
        self.listener = listener
        self.names = frozenset(names)
        self.port = "" if tls_port == 443 else f":{tls_port}"
        self.published: dict[str, str] = {}
        """Responses to challenges, by token."""
        self.visits: list[Visit] = []
        """The connections, the oldest first."""
        self.lock = threading.Lock()

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, address = self.listener.accept()
            except OSError:
                time.sleep(0.1)
                continue
            visit = Visit(client, find_network(address[0]))
            with self.lock:
                self.make_room(visit.network)
                self.visits.append(visit)
            threading.Thread(target=self._serve, args=(visit,), daemon=True).start()

    def make_room(self, network: str) -> None:
        """End a connection if there are too many, so that the authority does not wait for strangers."""
        same = [each for each in self.visits if each.network == network]
        if len(same) >= MAX_FROM_NETWORK:
            self._end_one(same)
        elif len(self.visits) >= MAX_CONNECTIONS:
            self._end_one(self.visits)

    def _end_one(self, visits: list[Visit]) -> None:
        """End the oldest connection that has sent nothing; if there is none, the oldest."""
        visit = next((each for each in visits if not each.has_sent), visits[0])
        self.visits.remove(visit)
        with suppress(OSError):
            visit.client.shutdown(socket.SHUT_RDWR)

    def _serve(self, visit: Visit) -> None:
        try:
            with visit.client, suppress(OSError):
                visit.client.sendall(self.respond(visit.read_head()))
        finally:
            with self.lock, suppress(ValueError):  # `make_room` may have ended it
                self.visits.remove(visit)

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


def find_network(host: str) -> str:
    """Return what counts as one sender."""
    address = ip_address(host.partition("%")[0])
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or ip_network((int(address), 64), strict=False))


def _write(status: int, body: str, header: str = "") -> bytes:
    words = {200: "OK", 308: "Permanent Redirect", 400: "Bad Request", 404: "Not Found"}
    head = f"HTTP/1.1 {status} {words[status]}\r\n{header}Content-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()
