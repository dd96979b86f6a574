"""Tests of SIGHUP: a running server reads its certificate and settings again, and logs what changed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest
from e2b import RateLimitException, Sandbox
from e2b.exceptions import ServiceBusyException

from tests.e2e.server.conftest import Served, served
from tests.upstream import make_certificates

SECONDS = 30.0


def reload(server: Served, word: str = "reload") -> str:
    """Have a server read its settings again; return what it logs about that."""
    before = len(server.log.read_text())
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + SECONDS
    while word not in (said := server.log.read_text()[before:]) and time.monotonic() < end:
        time.sleep(0.05)
    assert word in said, said
    return said


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def certificate_at(port: int) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), SECONDS) as plain, context.wrap_socket(plain) as secured:
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return shown


def test_sighup_changes_certificate_and_quota_and_no_desk_ends(home: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make_certificates(tmp_path / name, "desk.test")
    live = tmp_path / "live.pem"
    chains = [make_certificates(tmp_path / name, "desk.test")[1] for name in ("one", "two")]
    shutil.copy(chains[0], live)
    port = free_port()
    options = ("--tls-port", str(port), "--certificate", str(live), "--key-file", str(live))
    with served(home / f"serve-{time.monotonic_ns()}", *options) as server:
        config = server.settings.run.parent / "etc/config.toml"
        sandbox = Sandbox.create(**server.e2b)
        first = certificate_at(port)
        shutil.copy(chains[1], live)
        assert certificate_at(port) == first
        config.write_text('[serve.quota]\ndesks = 1\n[serve]\negress = "deny"\n')
        assert "needs_restart=egress" in reload(server)
        assert certificate_at(port) != first
        assert sandbox.commands.run("echo still here").stdout == "still here\n"
        with pytest.raises(RateLimitException):
            Sandbox.create(**server.e2b)
        config.write_text("[serve.quota]\ndesks = 5\n")
        reload(server)
        Sandbox.create(**server.e2b).kill()
        sandbox.kill()


@pytest.mark.long
@pytest.mark.gvisor
@pytest.mark.container
def test_a_wall_that_is_set_up_while_a_server_runs_is_used_and_a_missing_one_is_reported(
    home: Path, tmp_path: Path
) -> None:
    program = tmp_path / "runsc"
    config = f'[serve]\nwall = "gvisor"\nready = {{}}\n[wall.gvisor]\nprogram = "{program}"\n'
    with served(home / f"serve-{time.monotonic_ns()}", config=config) as server:
        remedy = (
            f"the wall gvisor is not available here: {program} does not exist; `hotdesk setup --wall gvisor` sets it"
        )
        with pytest.raises(ServiceBusyException, match=remedy):
            Sandbox.create(**server.e2b)
        headers = {"Authorization": f"Bearer {server.key}"}
        told = httpx.post(f"{server.url}/api/v1/desks", headers=headers, json={}, timeout=SECONDS)
        assert (told.status_code, told.json()["code"]) == (503, "host.wall")
        program.symlink_to(str(shutil.which(server.settings.gvisor_program)))
        assert "available=container,gvisor" in reload(server, "that this machine supports have changed")
        sandbox = Sandbox.create(**server.e2b)
        assert sandbox.commands.run("uname -r").stdout.strip() != os.uname().release
        sandbox.kill()
        program.unlink()
        assert "available=container" in reload(server, "that this machine supports have changed")
        with pytest.raises(ServiceBusyException, match=remedy):
            Sandbox.create(**server.e2b)


@pytest.mark.parametrize("wrong", ["[serve]\nlongest = -1\n", "[serve\n", "[serve]\nnothing = 1\n"])
def test_wrong_settings_change_nothing_and_the_log_says_why(server: Served, wrong: str) -> None:
    config = server.settings.run.parent / "etc/config.toml"
    config.write_text(wrong)
    assert "nothing was reloaded" in reload(server)
    config.write_text("")
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.long
def test_a_sign_in_and_refusals_are_in_the_log_and_cannot_fill_it(server: Served) -> None:
    httpx.post(f"{server.url}/api/v1/session", json={"key": server.key}).raise_for_status()
    said = server.log.read_text()
    assert f"sign-in name=test key={server.key[4:12]} tenant=default address=127.0.0.1" in said
    assert server.key not in said
    for _ in range(100):
        assert httpx.get(f"{server.url}/sandboxes", headers={"X-API-Key": "e2b_" + "0" * 40}).status_code == 401
    refused = [line for line in server.log.read_text().splitlines() if "refused status=401 part=e2b" in line]
    assert 1 <= len(refused) <= 10


@pytest.mark.long
def test_the_log_is_json_on_request(home: Path) -> None:
    with served(home / f"serve-{time.monotonic_ns()}", config='[serve]\nlog = "json"\n') as server:
        httpx.get(f"{server.url}/sandboxes")
        server.process.terminate()
        server.process.wait(SECONDS)
        lines = server.log.read_text().splitlines()[1:]
        events = [json.loads(line)["event"] for line in lines]
        assert (events[0], events[-1]) == ("start", "stop")
        assert "refused" in events
