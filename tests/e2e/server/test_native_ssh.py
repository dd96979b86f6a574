"""Tests of OpenSSH at the desks of a server: by its socket for users of its machine, by a key from anywhere."""

from __future__ import annotations

import grp
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from hotdesk.api.keys import ApiKeys
from hotdesk.ipc.child import SOURCE
from tests.e2e.server.conftest import Served
from tests.ssh_room import ENTRY, HOTDESK, SshRoom

pytestmark = [pytest.mark.container, pytest.mark.timeout(120)]
NOBODY = 65534
"""A user with an account, as ssh demands."""
GROUP = grp.getgrnam("hotdesk").gr_gid
FORWARD = """
"$2" -c 'from hotdesk.cli import main; main()' forward "$1" 9 --listen 0 2>said &
forward=$!
for _ in $(seq 100); do grep -q Forwarding said && break; sleep 0.1; done
port=$(sed -n 's/^Forwarding 127.0.0.1:\\([0-9]*\\) to.*/\\1/p' said)
"$2" -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1]))).recv(1)' "$port"
for _ in $(seq 50); do grep -q listens said && break; sleep 0.1; done
kill $forward; wait $forward; cat said >&2
"""
LISTEN = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    caller, _ = listener.accept()
    while data := caller.recv(65536):
        caller.sendall(data)
    caller.sendall(b"[end]")
    caller.close()
"""


@dataclass(slots=True)
class FarRoom(SshRoom):
    """A desk of a server, reached with a key."""

    url: str = ""

    def configure(self) -> None:
        command = f"{sys.executable} -c 'from hotdesk.cli import main; main()'"
        entry = ENTRY.format(command=command, known=self.settings.run / "known_hosts")
        (self.folder / "config").write_text(entry.replace("--stdio", f"--stdio --server {self.url}"))


@pytest.fixture(scope="module")
def room(server: Served, api: httpx.Client) -> Iterator[FarRoom]:
    desk = api.post("/desks", json={"root": True}).raise_for_status().json()["id"]
    with tempfile.TemporaryDirectory(prefix="hotdesk-ssh-") as folder:
        found = FarRoom(Path(folder), server.settings, desk, {"HOTDESK_API_KEY": server.key}, server.url)
        found.configure()
        yield found
    api.delete(f"/desks/{desk}")


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/api/v1", headers={"X-API-Key": server.key}, timeout=60) as client:
        yield client


def test_a_key_signs_in(room: FarRoom) -> None:
    done = room.ssh("--", "cat; id -un; exit 4", stdin=b"over the server\n")
    assert (done.returncode, done.stdout) == (4, b"over the server\nuser\n"), done.stderr


def test_a_key_signs_in_as_root(room: FarRoom) -> None:
    done = room.ssh("-l", "root", "--", "id -u")
    assert (done.returncode, done.stdout) == (0, b"0\n"), done.stderr


def test_files_are_copied_by_a_key(room: FarRoom) -> None:
    data = os.urandom(1_500_000)
    (room.folder / "data").write_bytes(data)
    done = room.call(["scp", "-F", str(room.config), "data", f"{room.name}:data"])
    assert done.returncode == 0, done.stderr
    done = room.call(["scp", "-F", str(room.config), f"{room.name}:data", "back"])
    assert (done.returncode, (room.folder / "back").read_bytes() == data) == (0, True), done.stderr


def test_a_port_is_reached_by_a_key(room: FarRoom) -> None:
    with room.running(["ssh", "-F", str(room.config), room.name, "python3 -c '" + LISTEN + "'"]) as inside:
        assert inside.stdout is not None
        port = int(inside.stdout.readline())
        done = room.ssh("-W", f"localhost:{port}", stdin=b"hello")
    assert (done.returncode, done.stdout) == (0, b"hello[end]"), done.stderr
    assert room.ssh("-W", "localhost:3128").returncode == 255


@pytest.mark.parametrize(
    ("key", "why"), [("", b"no key for http"), ("e2b_" + "0" * 40, b"the server refused the connection")]
)
def test_signing_in_needs_a_valid_key(room: FarRoom, key: str, why: bytes) -> None:
    other = FarRoom(room.folder, room.settings, room.desk, {"HOTDESK_API_KEY": key}, room.url)
    done = other.ssh("--", "true")
    assert (done.returncode, why in done.stderr) == (255, True), done.stderr


def test_a_desk_that_is_not_there_is_reported(room: FarRoom) -> None:
    other = FarRoom(room.folder, room.settings, f"i{'0' * 20}", room.env, room.url)
    done = other.ssh("--", "true")
    assert (done.returncode, b"the server refused the connection" in done.stderr) == (255, True), done.stderr


def test_a_key_is_sent_unencrypted_to_this_machine_only(room: FarRoom) -> None:
    done = room.hotdesk("ssh", "--stdio", "--server", "http://192.0.2.1:3700", room.desk)
    assert (done.returncode, b"must use https" in done.stderr) == (125, True), done.stderr


def test_a_revoked_key_ends_its_session(server: Served, room: FarRoom) -> None:
    keys = ApiKeys(server.settings.lib / "serve")
    key = keys.make("leaver")
    leaver = FarRoom(room.folder, room.settings, room.desk, {"HOTDESK_API_KEY": key}, room.url)
    with leaver.running(["ssh", "-F", str(room.config), room.name, "echo up; cat"]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        keys.revoke(key[4:12])
        assert process.wait(20) == 255


# -- users of the server's machine ---------------------------------------------------------------------------------


def as_nobody(server: Served, folder: Path, groups: list[int], *argv: str) -> subprocess.CompletedProcess[bytes]:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(SOURCE),
        "HOTDESK_SERVER": str(server.settings.run / "serve.sock"), "HOTDESK_IMAGES": str(server.settings.images),
    }  # fmt: skip
    member = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    reading = "+dac_read_search"  # Python itself may be where only root can read
    who = ["--reuid", str(NOBODY), "--regid", str(NOBODY), *member, "--inh-caps", reading, "--ambient-caps", reading]
    return subprocess.run(
        ["setpriv", *who, *argv], env=env, capture_output=True, check=False, timeout=60, cwd=folder, input=b""
    )


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hotdesk-ssh-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        path = Path(folder)
        command = f"{sys.executable} -c 'from hotdesk.cli import main; main()'"
        known = path / ".local/share/hotdesk/known_hosts"
        (path / "config").write_text(ENTRY.format(command=command, known=known))
        yield path


def test_group_members_sign_in_and_copy(server: Served, home: Path) -> None:
    opened = as_nobody(server, home, [GROUP], *HOTDESK, "open")
    desk = opened.stdout.decode().strip()
    assert opened.returncode == 0, opened.stderr
    try:
        done = as_nobody(server, home, [GROUP], "ssh", "-F", "config", f"{desk}.desk", "id -un; echo text > made")
        assert (done.returncode, done.stdout) == (0, b"user\n"), done.stderr
        done = as_nobody(server, home, [GROUP], "scp", "-F", "config", f"{desk}.desk:made", "fetched")
        assert (done.returncode, (home / "fetched").read_bytes()) == (0, b"text\n"), done.stderr
        assert (home / ".local/share/hotdesk/ssh/host_key").stat().st_mode & 0o777 == 0o600
        refused = as_nobody(server, home, [], "ssh", "-F", "config", f"{desk}.desk", "true")
        assert refused.returncode == 255
        assert b"usermod -aG hotdesk" in refused.stderr, refused.stderr
    finally:
        as_nobody(server, home, [GROUP], *HOTDESK, "burn", desk)


def test_a_group_members_port_is_forwarded_to_a_local_address(server: Served, home: Path) -> None:
    opened = as_nobody(server, home, [GROUP], *HOTDESK, "open")
    desk = opened.stdout.decode().strip()
    try:
        done = as_nobody(server, home, [GROUP], "sh", "-c", FORWARD, "sh", desk, sys.executable)
        assert b"to port 9 of" in done.stderr, done.stderr
        assert b"nothing listens on port 9" in done.stderr, done.stderr
    finally:
        as_nobody(server, home, [GROUP], *HOTDESK, "burn", desk)


@pytest.mark.parametrize("to", ["3128", "65536", "99999"])
def test_a_refused_port_reports_the_reason(room: FarRoom, to: str) -> None:
    url = f"{room.url.replace('http', 'ws')}/api/v1/desks/{room.desk}/stream?to={to}"
    headers = {"X-API-Key": room.env["HOTDESK_API_KEY"]}
    with connect(url, additional_headers=headers) as line, pytest.raises(ConnectionClosed) as closed:
        line.recv(20)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404
    assert f"port {to} cannot be forwarded" in closed.value.rcvd.reason
