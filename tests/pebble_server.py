"""Debian's pebble on loopback: a real ACME authority for tests, and the name server it uses."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.upstream import make_certificates

PATIENCE_S = 30.0


@dataclass(frozen=True)
class Pebble:
    """A running authority."""

    directory: str
    ca: Path
    """The CA certificate of its own HTTPS address."""
    root: Path
    """The root of the certificates it issues."""
    http_port: int
    """The port where it looks for responses to http-01 challenges."""
    log: Path


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]


@contextlib.contextmanager
def pebble(folder: Path, *, validity_s: int = 0, http_port: int = 0, **env: str) -> Iterator[Pebble]:
    listen, manage, dns, challenges, spare = free_ports(5)
    challenges = http_port or challenges
    ca, chain = make_certificates(folder, "localhost")
    settings = {
        "listenAddress": f"127.0.0.1:{listen}", "managementListenAddress": f"127.0.0.1:{manage}",
        "certificate": str(chain), "privateKey": str(chain), "httpPort": challenges, "tlsPort": spare,
        "ocspResponderURL": "", "externalAccountBindingRequired": False,
        **({"certificateValidityPeriod": validity_s} if validity_s else {}),
    }  # fmt: skip
    (folder / "pebble.json").write_text(json.dumps({"pebble": settings}))
    log = folder / "pebble.log"
    names = ["pebble-challtestsrv", "-defaultIPv6", "", "-dns01", f"127.0.0.1:{dns}", "-http01", "", "-https01", "",
             "-tlsalpn01", "", "-management", f"127.0.0.1:{free_ports(1)[0]}"]  # fmt: skip
    authority = ["pebble", "-config", str(folder / "pebble.json"), "-dnsserver", f"127.0.0.1:{dns}"]
    variables = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", **env}
    with log.open("wb") as written, contextlib.ExitStack() as stack:
        for argv in (names, authority):
            process = subprocess.Popen(argv, stdout=written, stderr=written, env=variables)
            stack.callback(process.wait)
            stack.callback(process.kill)
        root = folder / "pebble-root.pem"
        root.write_bytes(fetch(f"https://localhost:{manage}/roots/0", ca))
        yield Pebble(f"https://localhost:{listen}/dir", ca, root, challenges, log)


def fetch(url: str, ca: Path) -> bytes:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            context = ssl.create_default_context(cafile=str(ca))
            with urllib.request.urlopen(url, context=context, timeout=5) as answer:  # noqa: S310 - a fixed address
                return bytes(answer.read())
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
