"""The lab's cluster DNS: addresses of headless Services' ready pods, from the API server's endpoints."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

from api import read_list  # type: ignore[import-not-found]

RECORDS: dict[str, list[str]] = {}


def watch() -> None:
    """Read endpoints once a second."""
    while True:
        with suppress(OSError, ValueError):
            for each in read_list("/api/v1/endpoints"):
                meta = each["metadata"]
                found = [one["ip"] for part in each.get("subsets", []) for one in part.get("addresses", [])]
                RECORDS[f"{meta['name']}.{meta['namespace']}.svc.cluster.local"] = found
        time.sleep(1)


def answer(query: bytes) -> bytes:
    """Answer one question with A records, or with none."""
    labels, place = [], 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode())
        place += 1 + length
    kind = struct.unpack(">H", query[place + 1 : place + 3])[0]
    name, question = ".".join(labels).lower(), query[12 : place + 5]
    found = RECORDS.get(name)
    addresses = found if found and kind == 1 else []
    code = 3 if found is None else 0
    head = query[:2] + struct.pack(">HHHHH", 0x8480 | code, 1, len(addresses), 0, 0)
    rows = (b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(each) for each in addresses)
    return head + question + b"".join(rows)


def main() -> None:
    threading.Thread(target=watch, daemon=True).start()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("10.123.0.1", 53))
    while True:
        query, caller = sock.recvfrom(4096)
        try:
            sock.sendto(answer(query), caller)
        except (OSError, IndexError, ValueError, struct.error):
            continue


main()
