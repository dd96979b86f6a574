"""Tests of doctor's probes: how long they wait for a slow machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hotdesk.doctor.probes import build_sentry_probe

SLOW_DOOR = """
import threading
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"lo", 1))
server = socket.create_server(("127.0.0.1", 3128))

def reply():
    peer, _ = server.accept()
    time.sleep(0.6)
    peer.sendall(b"HTTP/1.1 403 Forbidden\\r\\n")

threading.Thread(target=reply, daemon=True).start()
tell({"gate": attempt(knock)})
"""


@pytest.mark.parametrize(("patience", "gate"), [(0.1, "silence"), (30.0, "HTTP/1.1 403 Forbidden")])
def test_a_probe_waits_for_the_door_as_long_as_the_machine_needs(patience: float, gate: str) -> None:
    _, alone, flag, code, arguments = build_sentry_probe(1, "name", patience)
    tools = code.partition("\ndata = {}\n")[0]
    apart = ("unshare", "--user", "--map-root-user", "--net")
    done = subprocess.run(
        [*apart, sys.executable, alone, flag, f"{tools}\n{SLOW_DOOR}", arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == {"gate": gate}
