"""The program of a probe pod: try every address of a table, and print what happened. Standard library only.

Without addresses it only listens. With them it also listens, tries all at once when it starts, before a slow network
plug-in may have applied its policy, and again until what must be reachable was reached. One line of JSON is printed.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping

PORT = 8000
"""The port on which every probe pod listens."""
ATTEMPT_S = 2.0
READY = "listening"
OPEN, REFUSED, FAILED, UNREACHABLE, SILENT = "open", "refused", "failed", "unreachable", "silent"
WORST_FIRST = (OPEN, REFUSED, FAILED, UNREACHABLE, SILENT)
"""The outcomes of an attempt; an address has that of its most successful attempt."""
_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EINVAL})
"""What routes that discard packets, and answers that forbid them, make of an attempt."""
_DNS_QUERY = b"\x07hd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x04test\x00\x00\x01\x00\x01"


def try_address(kind: str, host: str, port: int) -> str:
    """Try an address once, by TCP or with a DNS query over UDP, and return the outcome."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM if kind == "dns" else socket.SOCK_STREAM) as sock:
            sock.settimeout(ATTEMPT_S)
            sock.connect((host, port))
            if kind == "dns":
                sock.send(_DNS_QUERY)
                sock.recv(512)
        return OPEN
    except TimeoutError:
        return SILENT
    except ConnectionRefusedError:
        return REFUSED
    except OSError as e:
        return UNREACHABLE if e.errno in _UNREACHABLE else SILENT if e.errno == errno.ETIMEDOUT else FAILED


def try_all(table: list[list[object]], found: dict[str, str]) -> None:
    """Try every address once, at the same time, and keep the worst outcome of each."""

    def attempt(name: str, kind: str, host: str, port: int) -> None:
        outcome = try_address(kind, host, port)
        found[name] = min(outcome, found.get(name, SILENT), key=WORST_FIRST.index)

    threads = [
        threading.Thread(target=attempt, args=(str(name), str(kind), str(host), int(str(port))))
        for name, kind, host, port, _ in table
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def probe(table: list[list[object]], patience: float) -> Mapping[str, str]:
    """Try a table until every address that must be reachable was reached, and then once more."""
    found: dict[str, str] = {}
    needed = {str(row[0]) for row in table if row[4]}
    end = time.monotonic() + patience
    try_all(table, found)
    while any(found[name] != OPEN for name in needed) and time.monotonic() < end:
        time.sleep(0.2)
        try_all([row for row in table if row[0] in needed], found)
    try_all(table, found)
    return found


def main() -> None:
    """Listen, probe what the first argument has, and stay for as many seconds as it says."""
    order = json.loads(sys.argv[1])
    listener = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
    print(READY, flush=True)
    if order["table"]:
        print(json.dumps(probe(order["table"], order["patience"])), flush=True)
        os._exit(0)
    threading.Timer(order["patience"], os._exit, (0,)).start()
    while True:
        listener.accept()[0].close()


if __name__ == "__main__":
    main()
