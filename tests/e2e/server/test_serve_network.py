"""Tests of a server beyond loopback: network namespaces of two machines, TLS, names, and remote clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hotdesk.api.keys import ApiKeys
from tests.conftest import settings_in
from tests.e2e.conftest import PROGRAM, environment
from tests.e2e.server.conftest import PATIENCE
from tests.stall_watch import WATCHED, require_no_stalls
from tests.upstream import make_certificates

pytestmark = [pytest.mark.long, pytest.mark.container, pytest.mark.timeout(180)]

SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
"""Addresses of TEST-NET-1, which is reserved for documentation."""
NAME, DOMAIN, PORT = "desk.example.test", "box.example.test", 8443
LINK = """
set -e
ip netns add {near}
ip netns add {far}
ip -n {near} link add near type veth peer name far netns {far}
ip -n {near} addr add {server}/24 dev near
ip -n {far} addr add {client}/24 dev far
for each in {near} {far}; do ip -n $each link set lo up; done
ip -n {near} link set near up
ip -n {far} link set far up
"""
SDK = """
import sys
from e2b import Sandbox
sandbox = Sandbox.create(template="base", timeout=60)
print(sandbox.commands.run("echo by the SDK").stdout, end="")
sandbox.files.write("index.html", "by its own name")
sandbox.commands.run("python3 -m http.server 8000", background=True)
print(sandbox.get_host(8000), sandbox.traffic_access_token, flush=True)
sys.stdin.readline()
sandbox.kill()
"""
"""A program for E2B that is configured for another server by its environment alone."""


@dataclass(frozen=True, slots=True)
class Far:
    """A client's machine, for which the server is remote."""

    netns: str
    ca: Path
    key: str

    def argv(self, *argv: str) -> list[str]:
        return [*within(self.netns), *argv]

    def curl(self, url: str, *options: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
        """Make a request as a browser would: by name, with certificates checked."""
        known = ["--silent", "--max-time", "30", "--cacert", str(self.ca), "--resolve", f"{name}:{PORT}:{SERVER}"]
        argv = self.argv("curl", *known, *options, url)
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def within(netns: str) -> list[str]:
    """Return the command prefix that enters a network namespace, and changes nothing else."""
    return ["nsenter", f"--net=/run/netns/{netns}"]


@contextmanager
def linked() -> Iterator[tuple[str, str]]:
    near, far = f"near-{os.getpid()}", f"far-{os.getpid()}"
    script = LINK.format(near=near, far=far, server=SERVER, client=CLIENT)
    try:
        subprocess.run(["bash", "-c", script], check=True, capture_output=True)
        yield near, far
    finally:
        for each in (near, far):
            subprocess.run(["ip", "netns", "del", each], check=False, capture_output=True)


@pytest.fixture(scope="module")
def far(home: Path) -> Iterator[Far]:
    folder = home / f"serve-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    settings = settings_in(folder)
    ca, chain = make_certificates(folder, NAME, f"*.{DOMAIN}")
    key, log = ApiKeys(settings.lib / "serve").make("test"), folder / "serve.log"
    options = ["--host", SERVER, "--tls-port", str(PORT), "--certificate", str(chain), "--key-file", str(chain)]
    options += ["--name", NAME, "--domain", DOMAIN]
    with linked() as (near, other), log.open("wb") as written:
        argv = [*within(near), PROGRAM, "serve", *options]
        process = subprocess.Popen(argv, stderr=written, env={**environment(settings), **WATCHED})
        try:
            found = Far(other, ca, key)
            end = time.monotonic() + PATIENCE
            while found.curl(f"https://{NAME}:{PORT}/health").stdout != '{"status":"ok"}':
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.1)
            yield found
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0
        assert "Traceback" not in log.read_text()
        require_no_stalls(log)


def test_an_unchanged_program_of_e2bs_works_from_another_machine(far: Far, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    env = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "SSL_CERT_FILE": str(far.ca), "E2B_API_KEY": far.key,
        "E2B_API_URL": f"https://{NAME}:{PORT}", "E2B_SANDBOX_URL": f"https://{NAME}:{PORT}",
    }  # fmt: skip
    hosts.write_text(f"{SERVER} {NAME}\n")
    script = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    argv = far.argv("unshare", "--mount", "bash", "-c", script, "run", sys.executable, "-c", SDK)
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "by the SDK\n"
        host, token = program.stdout.readline().split()
        name, _, port = host.partition(":")
        assert (name.partition(".")[2], port) == (DOMAIN, str(PORT))
        options = ("-H", f"e2b-traffic-access-token: {token}")
        end = time.monotonic() + PATIENCE
        while (told := far.curl(f"https://{host}/index.html", *options, name=name).stdout) != "by its own name":
            assert time.monotonic() < end, told
            time.sleep(0.1)
        assert "by its own name" not in far.curl(f"https://{host}/index.html", name=name).stdout
        program.stdin.write("\n")
        program.stdin.close()
        assert program.wait(PATIENCE) == 0


def test_a_browsers_session_cookie_is_hidden_from_scripts_and_other_sites(far: Far, tmp_path: Path) -> None:
    origin, jar = f"https://{NAME}:{PORT}", str(tmp_path / "jar")
    told = ["-H", f"Origin: {origin}", "-H", "Content-Type: application/json", "-d", json.dumps({"key": far.key})]
    begun = far.curl(f"{origin}/api/v1/session", "--include", "--cookie-jar", jar, *told).stdout.lower()
    [cookie] = [line for line in begun.splitlines() if line.startswith("set-cookie:")]
    parts = {part.strip() for part in cookie.partition(":")[2].split(";")}
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= parts
    assert not any(part.startswith("domain") for part in parts)
    assert any(part.startswith("__host-hotdesk=") for part in parts)
    assert json.loads(far.curl(f"{origin}/api/v1/session", "--cookie", jar).stdout)["name"] == "test"
    assert "401" in far.curl(f"{origin}/api/v1/session", "--include").stdout.splitlines()[0]


def test_strict_transport_security_is_sent_for_the_operators_names_only(far: Far) -> None:
    page = far.curl(f"https://{NAME}:{PORT}/", "--include").stdout.lower()
    assert "strict-transport-security: max-age=31536000\n" in page
    other = far.curl(f"https://{NAME}:{PORT}/", "--include", "-H", "Host: localhost").stdout.lower()
    assert "strict-transport-security" not in other


@pytest.mark.parametrize("host", ["evil.example.test", f"{NAME}.evil.test", DOMAIN, f"3000-x.{DOMAIN}", CLIENT])
def test_a_name_that_is_not_the_servers_is_misdirected(far: Far, host: str) -> None:
    told = far.curl(f"https://{NAME}:{PORT}/health", "--include", "-H", f"Host: {host}").stdout
    assert "421" in told.splitlines()[0]


def test_a_plain_connection_to_the_tls_port_is_closed_and_the_server_continues(far: Far) -> None:
    plain = far.curl(f"http://{NAME}:{PORT}/health")
    assert (plain.stdout, plain.returncode in (52, 56)) == ("", True)
    assert far.curl(f"https://{NAME}:{PORT}/health").stdout == '{"status":"ok"}'


def test_the_port_without_tls_is_unreachable_from_other_machines(far: Far) -> None:
    argv = far.argv("curl", "--silent", "--max-time", "10", f"http://{SERVER}:3700/health")
    refused = subprocess.run(argv, capture_output=True, check=False)
    assert refused.returncode == 7


def test_old_protocols_and_missing_names_get_no_handshake(far: Far) -> None:
    old = far.curl(f"https://{NAME}:{PORT}/health", "--tls-max", "1.1")
    unnamed = far.curl(f"https://wrong.example.test:{PORT}/health", name="wrong.example.test")
    assert (old.returncode, unnamed.returncode) == (35, 60)
