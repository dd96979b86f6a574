"""Attacks by strangers on the port where a certificate authority fetches its challenge."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from hotdesk.api.acme.challenge import MAX_CONNECTIONS, ChallengeListener, find_network
from tests.security.guards import Removal, falls_without

pytestmark = pytest.mark.timeout(60)
REQUEST = b"GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: desk.example.test\r\n\r\n"
FILE = "acme/challenge.py"
AUTHORITY, STRANGER = "127.0.0.2", "127.0.0.3"


class Port:
    """The port, with connections from any address of loopback."""

    def __init__(self, listener: ChallengeListener, opened: ExitStack) -> None:
        self.listener, self.opened = listener, opened

    def connect(self, source: str, data: bytes = b"") -> socket.socket:
        """Connect, send `data`, and wait until the listener has both."""
        sock = socket.create_connection(self.listener.listener.getsockname(), timeout=3, source_address=(source, 0))
        self.opened.enter_context(sock)
        sock.sendall(data)
        end = time.monotonic() + 3
        while time.monotonic() < end and not self.has(sock, sent=bool(data)):
            time.sleep(0.005)
        return sock

    def has(self, sock: socket.socket, *, sent: bool) -> bool:
        for visit in [*self.listener.visits]:
            with suppress(OSError):
                if visit.client.getpeername() == sock.getsockname():
                    return visit.has_sent or not sent
        return False


def is_answered(sock: socket.socket, request: bytes = REQUEST) -> bool:
    try:
        sock.sendall(request)
        return b"token.thumbprint" in sock.recv(4096)
    except OSError:
        return False


def has_ended(sock: socket.socket) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.fixture
def port() -> Iterator[Port]:
    with ExitStack() as opened:
        listener = ChallengeListener(opened.enter_context(socket.create_server(("127.0.0.1", 0))), (), 443)
        listener.published["token"] = "token.thumbprint"
        listener.start()
        yield Port(listener, opened)


@falls_without(
    "acme: one stranger has few connections",
    Removal(FILE, "        if len(same) >= MAX_FROM_NETWORK:\n", "        if not network:\n"),
)
def test_one_stranger_does_not_end_the_connection_of_an_authority(port: Port) -> None:
    authority = port.connect(AUTHORITY, REQUEST[:40])
    for _ in range(MAX_CONNECTIONS + 8):
        port.connect(STRANGER, b"G")
    assert is_answered(authority, REQUEST[40:])


@falls_without(
    "acme: who sends nothing makes room",
    Removal(FILE, "next((each for each in visits if not each.has_sent), visits[0])", "visits[0]"),
)
def test_many_silent_strangers_do_not_end_the_connection_of_an_authority(port: Port) -> None:
    authority = port.connect(AUTHORITY, REQUEST[:40])
    for number in range(MAX_CONNECTIONS + 8):
        port.connect(f"127.0.1.{number + 1}")
    assert is_answered(authority, REQUEST[40:])


@falls_without(
    "acme: connections are bounded",
    Removal(FILE, "        elif len(self.visits) >= MAX_CONNECTIONS:\n", "        elif not self.visits and network:\n"),
)
def test_many_strangers_have_a_bounded_number_of_connections(port: Port) -> None:
    strangers = [port.connect(f"127.0.1.{number + 1}") for number in range(MAX_CONNECTIONS + 8)]
    assert is_answered(port.connect(AUTHORITY))
    assert len([sock for sock in strangers if not has_ended(sock)]) < MAX_CONNECTIONS


@falls_without(
    "acme: a customer's addresses count as one",
    Removal(FILE, "ip_network((int(address), 64), strict=False)", "address"),
)
def test_a_stranger_with_many_addresses_is_one() -> None:
    assert find_network("2001:db8::1") == find_network("2001:db8::2:3%eth0")
    assert find_network("2001:db8:1::1") != find_network("2001:db8:2::1")
    assert find_network("::ffff:192.0.2.1") == find_network("192.0.2.1") != find_network("192.0.2.2")
