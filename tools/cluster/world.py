"""What the lab's cluster has around it: an ERP, and addresses that answer. It runs in the network of the control plane.

python -m tools.cluster.world FOLDER PASSWORD: writes the ERP's authority into FOLDER, and prints `ready`.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESS = "10.123.0.1"
ERP_PORT, DOOR_PORT, OTHER_PORT = 8443, 3128, 3710
PORTS = (53, 80, 443, DOOR_PORT, OTHER_PORT)
"""Ports that accept connections at every address of the control plane, those of a public host and of metadata too."""


def forward(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side ends."""
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def relay(listener: socket.socket, port: int) -> None:
    """Connect every caller with a port of loopback."""
    while True:
        caller = listener.accept()[0]
        try:
            target = socket.create_connection(("127.0.0.1", port))
        except OSError:
            caller.close()
            continue
        for ends in ((caller, target), (target, caller)):
            threading.Thread(target=forward, args=ends, daemon=True).start()


def accept(listener: socket.socket) -> None:
    while True:
        listener.accept()[0].close()


def main() -> None:
    folder, password = Path(sys.argv[1]), sys.argv[2]
    spec = importlib.util.spec_from_file_location("erp", ROOT / "examples/invoices-small/erp.py")
    assert spec is not None
    assert spec.loader is not None
    erp = importlib.util.module_from_spec(spec)
    sys.modules["erp"] = erp
    spec.loader.exec_module(erp)
    with erp.serve_erp(folder, password) as running:
        shutil.copy(running.ca, folder / "erp-ca.pem")
        for port in PORTS:
            threading.Thread(target=accept, args=(socket.create_server(("0.0.0.0", port)),), daemon=True).start()
        listener = socket.create_server((ADDRESS, ERP_PORT))
        threading.Thread(target=relay, args=(listener, running.port), daemon=True).start()
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
