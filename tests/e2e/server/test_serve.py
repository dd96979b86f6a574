"""Tests of `hotdesk serve` itself: its output, the settings it refuses, how it ends, and TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import PATIENCE, Served, served

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def certified(folder: Path, *names: str) -> tuple[Path, Path]:
    """Create a self-signed certificate for some names; return it and its key."""
    folder.mkdir()
    chain, key = folder / "chain.pem", folder / "key.pem"
    names_of = ",".join(f"DNS:{name}" for name in names)
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=test", "-addext", f"subjectAltName={names_of}", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(argv, check=True, capture_output=True)
    return chain, key


def fails(home: Path, *options: str) -> str:
    """Run a server that must refuse to start; return its output."""
    folder = home / f"serve-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    argv = [PROGRAM, "serve", "--port", "0", *options]
    done = subprocess.run(argv, capture_output=True, env=environment(settings_in(folder)), timeout=60, check=False)
    shutil.rmtree(folder)
    assert done.returncode == 125
    return done.stderr.decode()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--host", "0.0.0.0"], "not loopback"),
        (["--egress", "some"], "deny, packages, open"),
        (["--ready", "base"], "such as base=4"),
        (["--tls-port", "1"], "TLS needs a certificate"),
        (["--port", "99999"], "from 0 to 65535"),
        (["--tls-port", "1", "--certificate", "nope.pem", "--key-file", "nope.pem"], "nope.pem cannot be read"),
        (["--tls-port", "1", "--certificate", __file__, "--key-file", __file__], "are not a certificate and its"),
        (["--ready", "nope=2"], "unknown template 'nope' in --ready; the templates are base, "),
    ],
    ids=["no TLS", "egress", "ready", "no certificate", "port", "no file", "no PEM", "no template"],
)
def test_invalid_options_are_refused_in_one_line(home: Path, options: list[str], why: str) -> None:
    said = fails(home, *options)
    assert why in said
    assert said.count("\n") == 1


def test_settings_are_checked_before_the_server_is_imported(home: Path) -> None:
    loaded = "import atexit, sys; atexit.register(lambda: print('uvicorn' in sys.modules, 'fastapi' in sys.modules))"
    script = f"{loaded}; from hotdesk.cli import main; main()"
    argv = [sys.executable, "-c", script, "serve", "--port", "99999"]
    done = subprocess.run(argv, capture_output=True, env=environment(settings_in(home)), timeout=60, check=False)
    assert (done.returncode, done.stdout) == (125, b"False False\n")


def test_a_server_without_keys_prints_how_to_create_one(home: Path) -> None:
    folder = home / f"serve-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    argv = [PROGRAM, "serve", "--port", "0", "--json"]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(settings_in(folder))
    )
    assert process.stdout is not None
    assert process.stderr is not None
    told = json.loads(process.stdout.readline())
    assert process.stderr.readline().decode().strip() == told["url"]
    assert b"hotdesk key new" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_cuts_streams_burns_desks_and_ends_it_well(home: Path, number: signal.Signals) -> None:
    with served(home / f"serve-{time.monotonic_ns()}") as server:
        sandbox = Sandbox.create(**server.e2b)
        failed: list[BaseException] = []

        def follow() -> None:
            try:
                sandbox.commands.run("echo on; sleep 300", timeout=300)
            except BaseException as e:  # noqa: BLE001 - told to the test
                failed.append(e)

        follower = threading.Thread(target=follow)
        follower.start()
        time.sleep(0.5)
        os.kill(server.process.pid, number)
        assert server.process.wait(PATIENCE) == 0
        follower.join(PATIENCE)
        assert not isinstance(failed[0], AssertionError)
        assert list((server.settings.run / "desks").iterdir()) == []
        assert not (server.settings.run / "serve.sock").exists()


def test_killing_a_sandbox_cuts_its_streams_with_an_error(server: Served) -> None:
    sandbox = Sandbox.create(**server.e2b)
    handle = sandbox.commands.run("echo on; sleep 300", background=True, timeout=0)
    sandbox.kill()
    with pytest.raises(SandboxException, match="sandbox was killed or reached its end of life"):
        handle.wait()


def test_a_port_of_a_sandbox_is_reached_over_tls_by_its_own_name(home: Path) -> None:
    chain, key = certified(home / f"tls-{time.monotonic_ns()}", "desk.example.test", "*.box.example.test")
    port = free_port()
    options = ["--tls-port", str(port), "--certificate", str(chain), "--key-file", str(key)]
    options += ["--name", "desk.example.test", "--domain", "box.example.test"]
    trusting = ssl.create_default_context(cafile=str(chain))
    with served(home / f"serve-{time.monotonic_ns()}", *options) as server:
        sandbox = Sandbox.create(**server.e2b)
        sandbox.files.write("index.html", "over TLS")
        sandbox.commands.run("python3 -m http.server 8000", background=True)
        host = sandbox.get_host(8000)
        assert host == f"8000-{sandbox.sandbox_id}.box.example.test:{port}"
        named: dict[str, Any] = {"headers": {"Host": host}, "extensions": {"sni_hostname": host.partition(":")[0]}}
        end = time.monotonic() + PATIENCE
        with httpx.Client(verify=trusting) as client:
            while (told := client.get(f"https://127.0.0.1:{port}/index.html", **named)).status_code == 502:
                assert time.monotonic() < end
                time.sleep(0.1)
        assert (told.status_code, told.text) == (200, "over TLS")
        sandbox.kill()
