"""Handles files inside a sandbox, as root, for the server outside: one request after the other, over stdin and stdout.

It is sent into the desk as text and imports nothing but the standard library. A request is a length and JSON; data to
be written follows in pieces, each a length and bytes, an empty one last. A response is frames: a letter (`D` data, `E`
some entries, `H` a head, `R` the result, `F` a failure), a length, bytes.
"""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import stat
import sys
from collections.abc import Iterator
from typing import Any

PIECE = 1 << 16
BATCH = 100
PREFIX = "user.e2b."
LETTERS = ((stat.S_ISDIR, "d"), (stat.S_ISLNK, "L"), (stat.S_ISBLK, "D"), (stat.S_ISFIFO, "p"), (stat.S_ISSOCK, "S"))
_BITS = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))

source, sink = sys.stdin.buffer, sys.stdout.buffer


def tell(letter: bytes, payload: bytes) -> None:
    sink.write(letter + len(payload).to_bytes(4, "big") + payload)
    sink.flush()


def take() -> bytes:
    """Receive one piece; exit at the end of the stream."""
    head = source.read(4)
    if len(head) < 4:
        raise SystemExit
    return source.read(int.from_bytes(head, "big"))


def _get_owner_name(find: Any, number: int) -> str:
    try:
        return str(find(number)[0])
    except KeyError:
        return str(number)


def _format_permissions(mode: int) -> str:
    first = "".join(letter for test, letter in LETTERS if test(mode))
    first += "Dc" if stat.S_ISCHR(mode) else ""
    first += "".join(letter for bit, letter in _BITS if mode & bit)
    return (first or "-") + "".join(c if mode & (0o400 >> at) else "-" for at, c in enumerate("rwxrwxrwx"))


def _read_metadata(path: str) -> dict[str, str]:
    try:
        names = [name for name in os.listxattr(path) if name.startswith(PREFIX)]
        return {name[len(PREFIX) :]: os.getxattr(path, name).decode("ascii", "replace") for name in names}
    except OSError:
        return {}


def describe_entry(path: str, shown: str) -> dict[str, object]:
    """Describe a path; a link has the kind and mode of its target."""
    info = os.lstat(path)
    mode, target = info.st_mode, None
    if stat.S_ISLNK(mode):
        target = os.path.realpath(path)
        try:
            mode = os.stat(path).st_mode
        except OSError:
            target, mode = path, 0
    kind = "file" if stat.S_ISREG(mode) else "directory" if stat.S_ISDIR(mode) else "other"
    return {
        "name": os.path.basename(shown) or "/",
        "path": shown,
        "kind": kind,
        "size": info.st_size,
        "mode": mode & 0o777,
        "permissions": _format_permissions(info.st_mode),
        "owner": _get_owner_name(pwd.getpwuid, info.st_uid),
        "group": _get_owner_name(grp.getgrgid, info.st_gid),
        "modified": info.st_mtime_ns,
        "target": target,
        "metadata": _read_metadata(path),
    }


def make_folders(path: str, owner: int) -> None:
    """Create a folder and its missing parents; new ones get the owner."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        try:
            os.mkdir(each, 0o755)
        except FileExistsError:
            if not os.path.isdir(each):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
            continue
        os.chown(each, owner, owner)


def describe(ask: dict[str, Any]) -> object:
    return describe_entry(ask["path"], ask["path"])


def make(ask: dict[str, Any]) -> object:
    """Create a folder; return whether it is new."""
    if os.path.isdir(ask["path"]):
        return False
    if os.path.lexists(ask["path"]):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    make_folders(ask["path"], ask["owner"])
    return True


def move(ask: dict[str, Any]) -> object:
    """Rename a path and create the destination's folders; between file systems, copy it."""
    old, new = ask["path"], ask["destination"]
    os.lstat(old)
    make_folders(os.path.dirname(new), ask["owner"])
    try:
        os.rename(old, new)
    except OSError as e:
        if e.errno != errno.EXDEV:
            raise
        import shutil

        shutil.move(old, new)
    return describe_entry(new, new)


def remove(ask: dict[str, Any]) -> object:
    """Remove a path with everything below it; links are removed, not followed."""
    import shutil

    path = ask["path"]
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    return {}


def list_folder(ask: dict[str, Any]) -> object:
    """Send a folder's entries, depth first, sorted by name."""
    shown = ask["path"]
    top = os.path.realpath(shown)
    batch: list[object] = []
    for below in walk(top, "", ask["depth"]):
        try:
            batch.append(describe_entry(f"{top}/{below}", f"{shown.rstrip('/')}/{below}"))
        except OSError:
            continue  # it was removed meanwhile
        if len(batch) == BATCH:
            tell(b"E", json.dumps(batch).encode())
            batch = []
    tell(b"E", json.dumps(batch).encode())
    return {}


def walk(top: str, below: str, depth: int) -> Iterator[str]:
    """Yield paths below a folder; links are not followed."""
    waiting = [(below + name, depth) for name in sorted(os.listdir(top or "/"), reverse=True)]
    while waiting:
        path, remaining = waiting.pop()
        yield path
        whole = f"{top}/{path}"
        if remaining > 1 and os.path.isdir(whole) and not os.path.islink(whole):
            try:
                waiting += [(f"{path}/{name}", remaining - 1) for name in sorted(os.listdir(whole), reverse=True)]
            except OSError:
                pass  # it was removed meanwhile


def read(ask: dict[str, Any]) -> object:
    """Send a file's size, then the bytes of the requested range."""
    fd = os.open(ask["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        tell(b"H", json.dumps({"size": info.st_size, "modified": info.st_mtime_ns}).encode())
        first, last = json.loads(take())
        if first:
            file.seek(first)
        remaining = last - first if last is not None else None
        while remaining != 0 and (data := file.read(PIECE if remaining is None else min(PIECE, remaining))):
            tell(b"D", data)
            remaining = None if remaining is None else remaining - len(data)
    return {}


def write(ask: dict[str, Any]) -> object:
    """Write a file in place: create or empty it, set its owner and metadata, then write the data."""
    path, owner = ask["path"], ask["owner"]
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if os.path.exists(path) and os.path.samefile(path, "/proc/self/exe"):  # gVisor would open it and end this program
        raise OSError(errno.ETXTBSY, os.strerror(errno.ETXTBSY))
    make_folders(os.path.dirname(path), owner)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o644)
    try:
        os.fchown(fd, owner, owner)
        note(fd, ask["metadata"])
        while data := take():
            while data:
                data = data[os.write(fd, data) :]
    finally:
        os.close(fd)
    return {}


def note(fd: int, notes: dict[str, str]) -> None:
    try:
        existing = [name for name in os.listxattr(fd) if name.startswith(PREFIX)]
    except OSError:
        existing = []
    for name in existing:
        if name[len(PREFIX) :] not in notes:
            os.removexattr(fd, name)
    for key, value in notes.items():
        os.setxattr(fd, PREFIX + key, value.encode())


def answer(ask: dict[str, Any]) -> object:
    return {}


ACTS = {"ping": answer, "stat": describe, "make": make, "move": move, "remove": remove, "list": list_folder,
        "read": read, "write": write}  # fmt: skip


def main() -> None:
    os.umask(0o022)
    while True:
        ask = json.loads(take())
        try:
            tell(b"R", json.dumps(ACTS[ask["act"]](ask)).encode())
        except OSError as e:
            tell(b"F", json.dumps([errno.errorcode.get(e.errno or 0, ""), e.strerror or str(e)]).encode())
        except ValueError as e:
            tell(b"F", json.dumps(["EINVAL", str(e)]).encode())


if __name__ == "__main__":
    main()
