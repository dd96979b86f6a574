"""A real SOCKS5 proxy on loopback: with or without TLS and a password, and with its own names."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class SocksServer:
    """A running proxy, and the requests it got."""

    port: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    """Names it resolves, each to HOST:PORT."""
    credentials: tuple[str, str] | None = None
    reply: int = 0
    """The reply code to every request, or 0 to carry requests out."""
    requests: list[tuple[int, str, int]] = field(default_factory=list)
    """Address type, host and port of each request."""
    users: list[tuple[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def serve(self, client: socket.socket) -> None:
        """Answer one client, then pass bytes both ways."""
        with client, contextlib.suppress(OSError, ValueError, struct.error):
            _, count = take(client, 2)
            methods = take(client, count)
            wanted = 2 if self.credentials else 0
            client.sendall(bytes((5, wanted if wanted in methods else 255)))
            if wanted not in methods or (self.credentials and not self.check(client)):
                return
            kind, host, port = read_target(client)
            self.requests.append((kind, host, port))
            leads = self.names.get(host)
            if self.reply or leads is None:
                client.sendall(bytes((5, self.reply or 4, 0, 1)) + bytes(6))
                return
            there, _, where = leads.rpartition(":")
            with socket.create_connection((there, int(where))) as upstream:
                client.sendall(bytes((5, 0, 0, 1)) + bytes(6))
                back = threading.Thread(target=pump, args=(upstream, client), daemon=True)
                back.start()
                pump(client, upstream)
                back.join()

    def check(self, client: socket.socket) -> bool:
        take(client, 1)
        pair = tuple(take(client, take(client, 1)[0]).decode() for _ in range(2))
        self.users.append((pair[0], pair[1]))
        client.sendall(bytes((1, pair != self.credentials)))
        return pair == self.credentials


def take(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (more := sock.recv(count - len(data))):
            raise OSError("hung up")
        data += more
    return data


def read_target(client: socket.socket) -> tuple[int, str, int]:
    _, _, _, kind = take(client, 4)
    if kind == 3:
        host = take(client, take(client, 1)[0]).decode()
    else:
        family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
        host = socket.inet_ntop(family, take(client, size))
    return kind, host, struct.unpack(">H", take(client, 2))[0]


def pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def socks_server(chain: Path | None = None, **options: object) -> Iterator[SocksServer]:
    """Run a proxy; `chain` has the certificate and key for TLS, if it uses TLS."""
    listener = socket.create_server(("127.0.0.1", 0))
    found = SocksServer(listener.getsockname()[1], **options)  # type: ignore[arg-type]
    context = None
    if chain is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(client,), daemon=True).start()

    def talk(client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            found.serve(context.wrap_socket(client, server_side=True) if context else client)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
