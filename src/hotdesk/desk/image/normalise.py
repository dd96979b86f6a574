"""Adapt a tree for desks: add the files that a desk mounts over and its user, and remove everything privileged."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from hotdesk.desk.image.image import OPAQUE
from hotdesk.errors import ImageError
from hotdesk.linux.openat2 import RootDirectory

UID = 1000
HOME = b"home/user"
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3")
FOLDERS = (b"proc", b"sys", b"dev", b"run", b"etc")
FILES = {
    b"etc/hostname": b"desk\n",
    b"etc/hosts": b"127.0.0.1 localhost\n",
    b"etc/resolv.conf": b"",
    b"etc/machine-id": b"",
}
"""Files that a desk's own files are mounted over: regular, and the same in every image."""


def furnish(root: RootDirectory) -> None:
    """Add what every desk needs to a tree: mount points, the files of `FILES`, uid 1000 and its home."""
    for path in FOLDERS:
        with root.folder(path):
            pass
    with root.folder(b"tmp") as fd:
        os.fchmod(fd, 0o1777)
    for path, data in FILES.items():
        if not holds(root, path, data):
            root.write(path, data)
    _add_user(root)
    with root.folder(HOME) as fd:
        if os.fstat(fd).st_uid != UID:
            os.fchown(fd, UID, UID)


def holds(root: RootDirectory, path: bytes, data: bytes) -> bool:
    """Return whether a path is a regular file, not a link, with this content and mode 0644."""
    try:
        fd = root.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        mode = os.fstat(fd).st_mode
        return stat.S_ISREG(mode) and stat.S_IMODE(mode) == 0o644 and os.read(fd, len(data) + 1) == data
    finally:
        os.close(fd)


def _add_user(root: RootDirectory) -> None:
    """Name uid and gid 1000 `user` if they have no name."""
    number = str(UID).encode()
    lines = {
        b"etc/passwd": b"user:x:%s:%s::/home/user:/bin/bash" % (number, number),
        b"etc/group": b"user:x:%s:" % number,
    }
    for path, line in lines.items():
        old = read_file(root, path)
        if not any(row.split(b":")[2:3] == [number] for row in old.splitlines()):
            root.write(path, _add_final_newline(_remove_row(old, b"user")) + line + b"\n")
    shadow = read_file(root, b"etc/shadow")
    if shadow and not any(row.startswith(b"user:") for row in shadow.splitlines()):
        root.write(b"etc/shadow", _add_final_newline(shadow) + b"user:*:20000:0:99999:7:::\n", 0o600)


def read_file(root: RootDirectory, path: bytes) -> bytes:
    try:
        return root.read(path)
    except OSError:
        return b""


def _remove_row(text: bytes, name: bytes) -> bytes:
    return b"".join(row + b"\n" for row in text.splitlines() if row.split(b":")[0] != name)


def _add_final_newline(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


def find_python(root: RootDirectory, what: str) -> str:
    """Return the path of the tree's python3, which must be a regular executable inside it."""
    for path in PYTHONS:
        with suppress(OSError):
            fd = root.open(path.encode(), os.O_PATH)
            try:
                mode = os.fstat(fd).st_mode
            finally:
                os.close(fd)
            if stat.S_ISREG(mode) and mode & 0o111:
                return path
    remedy = "install it in the image (`apt-get install python3-minimal`), then build or import it again"
    raise ImageError(f"{what} has no python3, which hotdesk needs inside a desk; {remedy}")


def strip(tree: Path, whiteouts: bool) -> None:
    """Remove everything privileged from a tree: device nodes, sockets, setuid and setgid bits, capabilities.

    With `whiteouts`, keep overlay's whiteouts (character device 0:0) and opaque marks.
    """
    for _, folders, files, fd in os.fwalk(tree, follow_symlinks=False):
        _strip_entry(fd, ".", whiteouts)
        for name in (*files, *(each for each in folders if stat.S_ISLNK(os.lstat(each, dir_fd=fd).st_mode))):
            _strip_entry(fd, name, whiteouts)


def _strip_entry(fd: int, name: str, whiteouts: bool) -> None:
    info = os.lstat(name, dir_fd=fd)
    kind = stat.S_IFMT(info.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        if not (whiteouts and kind == stat.S_IFCHR and info.st_rdev == 0):
            os.unlink(name, dir_fd=fd)
        return
    if kind != stat.S_IFLNK and info.st_mode & 0o6000:
        os.chmod(name, stat.S_IMODE(info.st_mode) & 0o1777, dir_fd=fd)
    path = f"/proc/self/fd/{fd}/{name}"
    for key in os.listxattr(path, follow_symlinks=False):
        allowed = key.startswith("user.") or (whiteouts and key == OPAQUE)
        if not allowed:
            os.removexattr(path, key, follow_symlinks=False)
