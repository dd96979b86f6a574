"""Tests of HTTP/2 at the server's port: with other projects' clients, over TLS, for E2B's API and for ports inside."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.e2e.server.conftest import Served, served
from tests.e2e.server.js_packages import install, run
from tests.upstream import make_certificates

pytestmark = [pytest.mark.container, pytest.mark.timeout(300)]
PROGRAM = Path(__file__).with_name("tls_program.py")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("tls"), "localhost", "*.localhost")


@pytest.fixture(scope="module")
def server(home: Path, certificates: tuple[Path, Path]) -> Iterator[Served]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    chain = str(certificates[1])
    options = ("--tls-port", str(port), "--certificate", chain, "--key-file", chain)
    with served(home / f"http2-{time.monotonic_ns()}", *options) as found:
        yield replace(found, url=f"https://localhost:{port}")


@pytest.fixture
def client(server: Served, certificates: tuple[Path, Path]) -> Iterator[httpx.Client]:
    trust = ssl.create_default_context(cafile=str(certificates[0]))
    headers = {"X-API-Key": server.key}
    with httpx.Client(base_url=server.url, http2=True, verify=trust, headers=headers, timeout=60) as found:
        yield found


def test_sandboxes_and_their_ports_are_reached_by_http_2(server: Served, client: httpx.Client) -> None:
    made = client.post("/v2/sandboxes", json={"templateID": "base"})
    assert (made.http_version, made.status_code) == ("HTTP/2", 201)
    inside = {"E2b-Sandbox-Id": made.json()["sandboxID"], "X-Access-Token": made.json()["envdAccessToken"]}
    assert client.get("/health", headers=inside).status_code == 204
    data = os.urandom(3_000_000)
    octets = {**inside, "Content-Type": "application/octet-stream"}
    sent = client.post("/files?path=a.bin", headers=octets, content=data)
    assert sent.status_code == 200
    assert client.get("/files?path=a.bin", headers=inside).content == data
    body = {"process": {"cmd": "python3", "args": ["-m", "http.server", "8000", "--bind", "127.0.0.1"]}}
    headers = {**inside, "Content-Type": "application/connect+json", "Connect-Timeout-Ms": "60000"}
    with client.stream("POST", "/process.Process/Start", headers=headers, content=envelope(body)) as started:
        next(started.iter_raw())
        port = {**inside, "E2b-Sandbox-Port": "8000"}
        for _ in range(100):
            if (answer := client.get("/a.bin", headers=port)).status_code != 502:
                break
            time.sleep(0.1)
        assert (answer.http_version, answer.content) == ("HTTP/2", data)
    assert client.delete(f"/sandboxes/{made.json()['sandboxID']}").status_code == 204
    assert client.get("/sandboxes/none").status_code == 404


def envelope(message: object) -> bytes:
    data = json.dumps(message).encode()
    return b"\0" + len(data).to_bytes(4, "big") + data


@pytest.mark.long
def test_the_python_sdk_works_over_tls(server: Served, certificates: tuple[Path, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", PROGRAM, server.key, server.url], capture_output=True, text=True, timeout=200,
        env={**os.environ, "SSL_CERT_FILE": str(certificates[0])}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "all of it\n"), done.stderr[-4000:]


@pytest.mark.long
def test_the_javascript_sdk_works_over_tls(
    server: Served, certificates: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", str(certificates[0]))
    assert run(install(tmp_path), "methods.mjs", server).called
