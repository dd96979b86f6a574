"""The files that make a computer itself and no other: who it is, whom it believes, how it becomes root."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hotdesk.desk import bundle, trust
from hotdesk.desk.beneath import Root

HOST_BUNDLE = Path(trust.BUNDLE)

Files = Mapping[str, bytes]
"""Contents by path below `/`."""


def identity(desk: str) -> dict[str, bytes]:
    """Give what a fresh desk is called, and a machine id nobody else has."""
    name = desk[:12]
    return {
        "etc/hostname": f"{name}\n".encode(),
        "etc/hosts": f"127.0.0.1 localhost {name}\n::1 localhost\n".encode(),
        "etc/machine-id": f"{os.urandom(16).hex()}\n".encode(),
        "etc/resolv.conf": b"",
    }


def privileges(root: bool, ca: str, python: str) -> dict[str, bytes]:
    """Give what lets a desk become root, and believe its door, as far as it may."""
    sudo = {bundle.SUDO: bundle.sudo(python).encode()} if root else {}
    return sudo | (trusting(ca) if ca else {})


def trusting(ca: str) -> dict[str, bytes]:
    """Give the files by which a desk believes its door, and whom this machine believes."""
    believed = HOST_BUNDLE.read_bytes() if HOST_BUNDLE.is_file() else b""
    given = {**trust.files(ca.encode()), trust.BUNDLE: believed + b"\n" + ca.encode()}
    return {path.lstrip("/"): data for path, data in given.items()}


def plant(folder: Path, files: Files) -> None:
    """Write files below a folder, whatever lies there already, and nowhere else."""
    with Root(folder) as root:
        for path, data in files.items():
            root.write(path.encode(), data, 0o755 if path == bundle.SUDO else 0o644)
