"""Files that give a desk its identity: host name, trusted certificates, the `sudo` program."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hotdesk.desk import door_files
from hotdesk.desk.room import layout
from hotdesk.errors import DeskError
from hotdesk.linux.openat2 import RootDirectory, write_file

_HOST_BUNDLE = Path(door_files.BUNDLE)

Files = Mapping[str, bytes]
"""Contents by path below `/`."""


def build_identity_files(desk: str) -> dict[str, bytes]:
    """Return a new desk's host name files, and a unique machine id."""
    name = desk[:12]
    return {
        "etc/hostname": f"{name}\n".encode(),
        "etc/hosts": f"127.0.0.1 localhost {name}\n::1 localhost\n".encode(),
        "etc/machine-id": f"{os.urandom(16).hex()}\n".encode(),
        "etc/resolv.conf": b"",
    }


def build_privilege_files(root: bool, ca: str, python: str, inside: bool = False) -> dict[str, bytes]:
    """Return the files for `sudo` and for trusting the door. With `inside`, the guest for root listens in the desk."""
    sudo = {layout.SUDO: layout.format_sudo_program(python, inside).encode()} if root else {}
    return sudo | (build_trust_files(ca) if ca else {})


def build_trust_files(ca: str) -> dict[str, bytes]:
    believed = _HOST_BUNDLE.read_bytes() if _HOST_BUNDLE.is_file() else b""
    files = {**door_files.build_files(ca.encode()), door_files.BUNDLE: believed + b"\n" + ca.encode()}
    return {path.lstrip("/"): data for path, data in files.items()}


def write_tree(folder: Path, files: Files) -> None:
    """Write files below a folder, and nowhere else whatever links exist there."""
    by_folder: dict[str, list[str]] = {}
    for path in files:
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    with RootDirectory(folder) as root:
        for above, paths in by_folder.items():
            with root.folder(above.encode()) as fd:
                for path in paths:
                    _write(fd, path, files[path])


def _write(fd: int, path: str, data: bytes) -> None:
    """Write a file in its folder, which is open. What has its name is replaced, unless it is a folder."""
    name = path.rpartition("/")[2]
    if is_folder(fd, name):
        raise DeskError(
            f"/{path} is a folder in the files of this desk's image or snapshot, but hotdesk must write a file "
            "there; rename the folder and try again"
        )
    write_file(fd, name.encode(), data, 0o755 if path == layout.SUDO else 0o644)


def is_folder(fd: int, name: str) -> bool:
    """Return whether a name is a folder. Folders are not removed, because a worker decides how long that takes."""
    with suppress(FileNotFoundError):
        return stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
    return False
