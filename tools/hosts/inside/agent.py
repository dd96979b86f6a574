"""The agent inside a machine of the lab: it runs the commands that come over a serial port, one after the other.

Requests and replies are lines of JSON. A command's output goes into a file, not a pipe, which a background process that
it leaves could keep open. Standard library only; started by systemd.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

PORT = "/dev/virtio-ports/lab"
MAX_OUTPUT = 200_000


def run(argv: list[str], timeout: float) -> dict[str, Any]:
    """Run a command until it ends, or until its timeout."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd="/", start_new_session=True
            )
        except OSError as e:
            return {"exit_code": 127, "output": str(e), "seconds": 0.0}
        try:
            code: int | None = child.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            code = None
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - MAX_OUTPUT))
        text = output.read().decode(errors="replace")
    return {"exit_code": code, "output": text, "seconds": time.monotonic() - began}


def serve(port: int, hello: dict[str, Any], *, is_patient: bool = True) -> None:
    """Greet, then answer requests; when the peer closes the port, wait for another, or return if not `is_patient`."""
    send(port, hello)
    pending = b""
    while True:
        try:
            data = os.read(port, 65536)
        except OSError:
            data = b""
        if not data:
            if not is_patient:
                return
            time.sleep(0.2)
            continue
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            send(port, {"id": request["id"], **run(request["argv"], request["timeout"])})


def send(port: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(port, data) :]


def open_port(path: str) -> int:
    """Open the port as soon as udev has named it, which takes minutes in slow emulation: longer than systemd waits."""
    while not os.path.exists(path):
        time.sleep(0.5)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def main() -> None:
    """Answer at the named port, or at the machine's own."""
    port = open_port(sys.argv[1] if sys.argv[1:] else PORT)
    with open("/proc/sys/kernel/random/boot_id") as file:
        serve(port, {"boot": file.read().strip()})


if __name__ == "__main__":
    main()
