"""Test of a sandbox's ports over TLS, with a wildcard name."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import anyio
import pytest

from hotdesk.api.settings import Serving
from hotdesk.config import Config
from tests.security.traffic_room import PORT, Ways, opened
from tests.upstream import make_certificates

pytestmark = [pytest.mark.container, pytest.mark.timeout(60)]

DOMAIN = "desks.test"


async def test_a_port_is_reached_over_tls_by_a_wildcard_name(settings: Config, tmp_path: Path) -> None:
    ca, chain = make_certificates(tmp_path, f"*.{DOMAIN}")
    trust = ssl.create_default_context(cafile=str(ca))
    async with opened(settings, Serving(domain=DOMAIN), ssl_certfile=str(chain)) as ways:
        heard = await anyio.to_thread.run_sync(ask, ways, trust)
    assert heard.startswith(b"HTTP/1.1 200")


def ask(ways: Ways, trust: ssl.SSLContext) -> bytes:
    name = f"{PORT}-{ways.sandbox.id}.{DOMAIN}"
    with (
        socket.create_connection(("127.0.0.1", ways.port), timeout=15) as plain,
        trust.wrap_socket(plain, server_hostname=name) as sock,
    ):
        sock.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        heard = b""
        while part := sock.recv(1 << 16):
            heard += part
        return heard
