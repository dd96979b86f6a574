"""1 GiB from a server over TLS: through a sandbox's port, and through nginx as TLS proxy, alternately.

The CPU time of the proxying process is compared: on a shared machine, elapsed time only shows how busy it is.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from bench.book import Book
from bench.start import HOTDESK
from e2b import Sandbox

from hotdesk.api.keys import ApiKeys

SIZE = 1 << 30
PORT, NGINX = "port: CPU seconds of the server for 1 GiB by TLS", "nginx: CPU seconds for 1 GiB as TLS proxy"
PORT_TIME, NGINX_TIME = "port: seconds for 1 GiB by TLS", "nginx: seconds for 1 GiB as TLS proxy"
INSIDE = 8000
FEED = f"""
import socket, sys, threading
def talk(sock):
    with sock:
        data = b""
        while b"\\r\\n\\r\\n" not in data:
            part = sock.recv(65536)
            if not part: return
            data += part
        sock.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: {SIZE}\\r\\nConnection: close\\r\\n\\r\\n")
        for _ in range({SIZE >> 20}):
            sock.sendall(bytes(1 << 20))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=16)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"""
CONFIG = """
daemon off; worker_processes 1; error_log {home}/nginx.log; pid {home}/nginx.pid;
events {{}}
http {{
  access_log off; client_body_temp_path {home}/n1; proxy_temp_path {home}/n2; fastcgi_temp_path {home}/n3;
  uwsgi_temp_path {home}/n4; scgi_temp_path {home}/n5;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {home}/chain.pem; ssl_certificate_key {home}/key.pem;
    location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1; proxy_max_temp_file_size 0; }}
  }}
}}
"""


async def measure(home: Path, book: Book, *, rounds: int) -> None:
    """Fetch through both, alternately; the first round only warms caches."""
    await anyio.to_thread.run_sync(fetch_all, home, book, rounds)


def fetch_all(home: Path, book: Book, rounds: int) -> None:
    make_certificate(home)
    nginx = os.environ.get("NGINX_PROGRAM") or shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    with serve(home) as (pid, url), feed(home) as upstream:
        if nginx is None:
            book.lack([NGINX, NGINX_TIME], "not installed: apt-get install nginx-light, or NGINX_PROGRAM=PATH")
            return
        with proxy(nginx, home, upstream) as (worker, beside):
            for number in range(-1, rounds):
                kept = book if number >= 0 else Book()
                for names, process, address in (
                    ((PORT, PORT_TIME), pid, url),
                    ((NGINX, NGINX_TIME), worker, beside),
                ):
                    cpu, took = fetch(process, address)
                    kept.note(names[0], number, cpu)
                    kept.note(names[1], number, took)


def fetch(pid: int, url: str) -> tuple[float, float]:
    """Fetch once; return a process's CPU seconds for it, and the elapsed seconds."""
    before, start = cpu_of(pid), time.perf_counter()
    host = url.split("/")[2]
    argv = [
        "curl",
        "-sSk",
        "--http1.1",
        "--fail",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        "--resolve",
        f"{host}:127.0.0.1",
        url,
    ]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    if int(done.stdout) != SIZE:
        raise RuntimeError(f"{url} gave {done.stdout} bytes")
    return cpu_of(pid) - before, time.perf_counter() - start


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def make_certificate(home: Path) -> None:
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-keyout", str(home / "key.pem"), "-out", str(home / "chain.pem"), "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*argv, "-addext", "subjectAltName=DNS:*.localhost"], check=True, capture_output=True)


@contextmanager
def serve(home: Path) -> Iterator[tuple[int, str]]:
    """Run a server with a sandbox that sends the data; yield its process id and the address of the port."""
    home.chmod(0o711)
    key = ApiKeys(home / "lib/serve").make("bench")
    files = ["--certificate", str(home / "chain.pem"), "--key-file", str(home / "key.pem")]
    argv = [HOTDESK, "serve", "--port", "0", "--tls-port", str(free_port()), *files, "--ready", "base=0"]
    with (home / "ports.log").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, "HOTDESK_HOME": str(home)}, stderr=log)
    try:
        while not (url := (home / "ports.log").read_text().partition("\n")[0]):
            time.sleep(0.05)
        sandbox = Sandbox.create(api_key=key, api_url=url, sandbox_url=url)
        sandbox.files.write("/tmp/feed.py", FEED)
        sandbox.commands.run(f"python3 /tmp/feed.py {INSIDE} > /tmp/up", background=True, timeout=0)
        sandbox.commands.run("while [ ! -s /tmp/up ]; do sleep 0.1; done")
        yield process.pid, f"https://{sandbox.get_host(INSIDE)}/"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def feed(home: Path) -> Iterator[int]:
    """Run the same sending program on this machine; yield its port."""
    (home / "feed.py").write_text(FEED)
    with subprocess.Popen([sys.executable, str(home / "feed.py"), "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@contextmanager
def proxy(nginx: str, home: Path, upstream: int) -> Iterator[tuple[int, str]]:
    """Run nginx in front of it; yield the process id of its worker, and its address."""
    port = free_port()
    (home / "nginx.conf").write_text(CONFIG.format(home=home, port=port, upstream=upstream))
    with subprocess.Popen([nginx, "-c", str(home / "nginx.conf"), "-p", str(home)]) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while not (found := children.read_text().split()):
                time.sleep(0.05)
            yield int(found[0]), f"https://nginx.localhost:{port}/"
        finally:
            process.terminate()


def free_port() -> int:
    """Find a port that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
