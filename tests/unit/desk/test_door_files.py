"""Tests with real programs that get only what a desk is given: they use the door and trust its certificate."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from hotdesk.desk import door_files
from hotdesk.door.http import ca

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n"
FETCH = "import urllib.request as u, sys; print(u.urlopen(sys.argv[1], timeout=20).read())"
JAVA = """
public class Fetch {
    public static void main(String[] args) throws Exception {
        System.out.write(new java.net.URL(args[0]).openStream().readAllBytes());
    }
}
"""


NODE = """
const get = (name, url) => new Promise((done, failed) => require(name).get(url, (a) => {
  let text = ''
  a.setEncoding('utf8').on('data', (more) => { text += more }).on('end', () => done(text))
}).on('error', failed))
const main = async () => {
  const near = require('http').createServer((_, answer) => answer.end('near\\n')).listen(0, '127.0.0.1')
  await new Promise((done) => near.on('listening', done))
  const here = `http://127.0.0.1:${near.address().port}/`
  for (const url of ['https://a.example.test/it', 'http://b.example.test/it', here]) {
    process.stdout.write(await get(url.split(':')[0], url))
    process.stdout.write(await (await fetch(url)).text())
  }
  near.close()
}
main()
"""


class Desk:
    """A door that answers hello to everything, and the files a desk of it gets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = ca.new_authority("I1", ca.get_utc_now())
        self.leaves = ca.Leaves(self.authority, ca.new_key(), folder)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.proxy = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen: list[str] = []
        self.bundle, self.certificate = folder / "bundle.crt", folder / "ca.crt"
        self.bundle.write_bytes(self.authority.certificate_pem)
        self.certificate.write_bytes(self.authority.certificate_pem)
        self.lock = threading.Lock()

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(sock,), daemon=True).start()

    def answer(self, sock: socket.socket) -> None:
        """Note the request, seen inside TLS if there is any, and say hello."""
        with sock:
            sock.settimeout(10)
            try:
                method, target = head(sock)
                if method != "CONNECT":
                    self.seen.append(target)
                    sock.sendall(ANSWER)
                    return
                sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                host = target.rpartition(":")[0]
                if target.endswith(":80"):
                    self.seen.append(f"http://{host}{head(sock)[1]}")
                    sock.sendall(ANSWER)
                    return
                with self.lock:
                    context = self.leaves.get_tls_context(host)
                with context.wrap_socket(sock, server_side=True) as inner:
                    self.seen.append(f"https://{host}{head(inner)[1]}")
                    inner.sendall(ANSWER)
            except OSError:
                return

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program with only a desk's variables, whose files are in another place."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        env |= (
            door_files.build_environment(self.proxy, str(self.bundle), str(self.certificate))
            | {"NODE_OPTIONS": ""}
            | more
        )
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def head(sock: socket.socket) -> tuple[str, str]:
    """Read a request's head; return its method and target."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(4096)
        if not more:
            raise OSError("the client went away")
        data += more
    method, target, _ = data.split(b"\r\n")[0].decode().split(" ")
    return method, target


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()
    thread.join(10)


PROGRAMS = {
    "curl": ["curl", "-sS", "URL"],
    "git": ["git", "ls-remote", "URL"],
    "python": [sys.executable, "-c", FETCH, "URL"],
    "pip": [sys.executable, "-m", "pip", "download", "--no-deps", "--retries=0", "--index-url=URL", "nothing"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scheme"),
    [*((name, "https") for name in PROGRAMS), *((name, "http") for name in ("curl", "git", "python"))],
)
def test_a_program_uses_the_door_and_trusts_it(desk: Desk, name: str, scheme: str) -> None:
    url = f"{scheme}://files.example.test/it"
    told = desk.run(*(word.replace("URL", url) for word in PROGRAMS[name]))
    assert any(seen.startswith(url) for seen in desk.seen), told.stderr


@pytest.mark.long
def test_npm_uses_the_door_and_trusts_it(desk: Desk) -> None:
    told = desk.run("npm", "ping", "--registry=https://registry.example.test/", "--fetch-retries=0")
    assert any(seen.startswith("https://registry.example.test/-/ping") for seen in desk.seen), told.stderr


@pytest.mark.long
def test_node_uses_the_door_and_trusts_it(desk: Desk) -> None:
    preload = desk.folder / "proxy.js"
    preload.write_bytes(door_files.build_files(desk.authority.certificate_pem)[door_files.NODE_PRELOAD])
    told = desk.run("node", "-e", NODE, NODE_OPTIONS=f"--require={preload}")
    assert told.stdout == "hello\n" * 4 + "near\n" * 2, told.stderr
    assert desk.seen == ["https://a.example.test/it"] * 2 + ["http://b.example.test/it"] * 2


@pytest.mark.long
def test_java_uses_the_door_and_trusts_it_through_its_variable(desk: Desk) -> None:
    store, source = desk.folder / "java.jks", desk.folder / "Fetch.java"
    store.write_bytes(door_files.encode_java_store(desk.authority.certificate_pem))
    source.write_text(JAVA)
    env = door_files.build_java_environment(desk.proxy, str(store))
    told = desk.run("java", str(source), "https://files.example.test/it", **env)
    assert (told.stdout, desk.seen) == ("hello\n", ["https://files.example.test/it"]), told.stderr


def test_a_program_without_variables_finds_the_certificate_by_its_hash(desk: Desk) -> None:
    path = next(path for path in door_files.build_files(desk.authority.certificate_pem) if path.endswith(".0"))
    (desk.folder / os.path.basename(path)).write_bytes(desk.authority.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(capath=desk.folder)
    with socket.create_connection(desk.listener.getsockname(), timeout=10) as sock:
        sock.sendall(b"CONNECT a.example.test:443 HTTP/1.1\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        with context.wrap_socket(sock, server_hostname="a.example.test") as inner:
            inner.sendall(b"GET /it HTTP/1.1\r\n\r\n")
            assert inner.recv(4096)


def test_apt_reads_its_settings(tmp_path: Path) -> None:
    text = door_files.build_files(ca.new_authority("i1", ca.get_utc_now()).certificate_pem)[
        "/etc/apt/apt.conf.d/91hotdesk-door"
    ]
    (tmp_path / "apt.conf").write_bytes(text)
    env = {"PATH": os.defpath, "APT_CONFIG": str(tmp_path / "apt.conf")}
    told = subprocess.run(["apt-config", "dump"], env=env, capture_output=True, text=True, timeout=30, check=True)
    assert {
        f'Acquire::http::Proxy "{door_files.PROXY}";',
        f'Acquire::https::Proxy "{door_files.PROXY}";',
        f'Acquire::https::CAInfo "{door_files.BUNDLE}";',
    } <= set(told.stdout.splitlines())


def test_browsers_are_told_the_certificate_and_the_proxy() -> None:
    authority = ca.new_authority("i1", ca.get_utc_now())
    told = [
        text
        for path, text in door_files.build_files(authority.certificate_pem).items()
        if path.endswith("managed/hotdesk.json")
    ]
    assert len(told) == 3
    policy = json.loads(told[0])
    pem = "-----BEGIN CERTIFICATE-----\n" + policy["CACertificates"][0] + "\n-----END CERTIFICATE-----\n"
    assert x509.load_pem_x509_certificate(pem.encode()) == x509.load_pem_x509_certificate(authority.certificate_pem)
    assert policy["ProxySettings"]["ProxyServer"] == door_files.PROXY


def test_files_given_to_a_desk_are_small_and_contain_no_key() -> None:
    authority = ca.new_authority("i" + "a" * 30, ca.get_utc_now())
    given = door_files.build_files(authority.certificate_pem)
    assert door_files.BUNDLE not in given
    assert b"PRIVATE" not in b"".join(given.values())
    assert sum(map(len, given.values())) < 16 << 10


def test_both_spellings_of_the_proxy_are_reported() -> None:
    told = door_files.build_environment()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert told[name] == told[name.upper()] == door_files.PROXY
    assert told["no_proxy"] == told["NO_PROXY"] == "localhost,127.0.0.1,::1"
