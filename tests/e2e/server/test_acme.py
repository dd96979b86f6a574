"""Tests of a server with certificates from a real ACME authority, Debian's pebble: the first, renewal, failures."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path

import pytest

from tests.e2e.server.conftest import served
from tests.pebble_server import Pebble, free_ports, pebble

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(200)]
NAME = "desk.example.test"


def config(authority: Pebble, port: int) -> str:
    return (
        f'[serve]\nacme = "{authority.directory}"\nacme_email = "ops@example.test"\nacme_ca = "{authority.ca}"\n'
        f'acme_port = {authority.http_port}\ntls_port = {port}\nnames = ["{NAME}"]\nready = {{}}\n'
    )


def serial(port: int, root: Path) -> int:
    """Return the serial number of the server's certificate, or 0 if the authority did not sign it."""
    trust = ssl.create_default_context(cafile=str(root))
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            trust.wrap_socket(plain, server_hostname=NAME) as sock,
        ):
            found = sock.getpeercert()
    except OSError:
        return 0
    return int(str(found["serialNumber"]), 16) if found else 0


def wait_for(port: int, root: Path, other: int = 0, seconds: float = 90) -> int:
    """Wait until a server has a certificate of the authority with another number than `other`; return its number."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := serial(port, root)) not in (0, other):
            return found
        time.sleep(0.5)
    return 0


def test_a_server_gets_its_certificate_and_renews_it_without_a_signal(home: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with (
        pebble(tmp_path, validity_s=45) as authority,
        served(home / f"acme-{time.monotonic_ns()}", config=config(authority, port)) as server,
    ):
        first = wait_for(port, authority.root)
        assert first, server.log.read_text() + authority.log.read_text()[-3000:]
        second = wait_for(port, authority.root, first)
        assert second, server.log.read_text() + authority.log.read_text()[-3000:]
        folder = server.settings.lib / "acme"
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in folder.iterdir()}
        assert modes == {"account.key": "0o600", "server.pem": "0o600", "state.json": "0o600"}
        assert (folder / "account.key").read_text() not in server.log.read_text()
        assert server.log.read_text().count("a new certificate is in use") >= 2


def test_a_failed_certificate_request_is_not_repeated_at_once(home: Path, tmp_path: Path) -> None:
    port, elsewhere = free_ports(2)
    with pebble(tmp_path) as authority:
        text = config(authority, port).replace(f"acme_port = {authority.http_port}", f"acme_port = {elsewhere}")
        with served(home / f"acme-{time.monotonic_ns()}", config=text) as server:
            end = time.monotonic() + 60
            while "no certificate was obtained" not in server.log.read_text() and time.monotonic() < end:
                time.sleep(0.5)
            assert "no certificate was obtained" in server.log.read_text()
            time.sleep(5)
            assert server.log.read_text().count("no certificate was obtained") == 1
            assert serial(port, authority.root) == 0
            assert (server.settings.lib / "acme/state.json").read_text().startswith('{"failures": 1')
