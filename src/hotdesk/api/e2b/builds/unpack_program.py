"""Run inside a desk, as root: unpacks the archive of a COPY step and puts its files in place.

The archive is hostile: it may name anything. It is unpacked in a fresh folder, name by name relative to open folders;
no link in it is followed, devices and paths that leave the folder are refused, and entries and bytes are counted.
Standard library only.
"""

# ruff: noqa: B904 - it runs inside a desk, and its last words are one line
from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import shutil
import stat
import sys
import tarfile
import tempfile
from typing import IO, Any

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
CHUNK = 1 << 20
GLOB = set("*?[{\\")


class RefusedArchive(Exception):  # noqa: N818 - a state of the archive
    """The archive cannot be unpacked; the message is the reason."""


def split(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise RefusedArchive(f"the archive has an entry outside its root folder: {name[:200]!r}")
    if len(parts) > 128 or any(len(os.fsencode(part)) > 255 for part in parts):
        raise RefusedArchive(
            f"the archive has a path of more than 128 parts, or with a part of more than 255 bytes: {name[:200]!r}"
        )
    return parts


def enter(top: int, parts: list[str]) -> int:
    """Open a folder below the top and create missing ones; links are not followed."""
    place = os.dup(top)
    for part in parts:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=place)
        try:
            below = os.open(part, FOLDER, dir_fd=place)
        except OSError:
            os.close(place)
            raise RefusedArchive(
                "the archive has an entry below {!r}, which is not a folder of the archive".format(
                    "/".join(parts)[:200]
                )
            )
        os.close(place)
        place = below
    return place


class Unpacking:
    def __init__(self, top: int, entries: int, size: int) -> None:
        self.top = top
        self.entries = self.max_entries = entries
        self.size = self.max_size = size

    def run(self, stream: IO[bytes]) -> None:
        try:
            with tarfile.open(fileobj=stream, mode="r|*") as archive:
                for member in archive:
                    self.entries -= 1
                    if self.entries < 0:
                        raise RefusedArchive(f"the archive of a COPY step has more than {self.max_entries} entries")
                    self.put(archive, member)
        except (tarfile.TarError, EOFError, ValueError) as e:
            raise RefusedArchive(f"the archive is damaged: {str(e)[:200]}")

    def put(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = split(member.name)
        if not parts:
            return
        place = enter(self.top, parts[:-1])
        try:
            if member.isdir():
                below = enter(place, parts[-1:])
                os.fchmod(below, member.mode & 0o777 | 0o700)
                os.close(below)
                return
            self.clear(place, parts[-1])
            if member.issym():
                os.symlink(member.linkname, parts[-1], dir_fd=place)
            elif member.islnk():
                self.link(member, place, parts[-1])
            elif member.isreg():
                content = archive.extractfile(member)
                assert content is not None
                self.write(content, place, parts[-1], member.mode & 0o777)
            else:
                raise RefusedArchive(f"the archive has a device or a pipe: {member.name[:200]!r}")
        finally:
            os.close(place)

    def clear(self, place: int, name: str) -> None:
        try:
            os.unlink(name, dir_fd=place)
        except FileNotFoundError:
            pass
        except OSError:
            raise RefusedArchive(f"the archive has {name[:200]!r} twice, as a folder and as a file")

    def link(self, member: tarfile.TarInfo, place: int, name: str) -> None:
        parts = split(member.linkname)
        if not parts:
            raise RefusedArchive("the archive has a hard link without a target")
        source = enter(self.top, parts[:-1])
        try:
            if not stat.S_ISREG(os.lstat(parts[-1], dir_fd=source).st_mode):
                raise RefusedArchive(
                    f"the archive has a hard link to something that is not a file: {member.linkname[:200]!r}"
                )
            os.link(parts[-1], name, src_dir_fd=source, dst_dir_fd=place, follow_symlinks=False)
        except FileNotFoundError:
            raise RefusedArchive(
                f"the archive has a hard link to a file that it does not contain: {member.linkname[:200]!r}"
            )
        finally:
            os.close(source)

    def write(self, content: IO[bytes], place: int, name: str, mode: int) -> None:
        """Write a file, counting its bytes before they are written."""
        with open(os.open(name, NEW, 0o600, dir_fd=place), "wb") as file:
            while True:
                data = content.read(CHUNK)
                if not data:
                    break
                self.size -= len(data)
                if self.size < 0:
                    raise RefusedArchive(f"the archive of a COPY step unpacks to more than {self.max_size} bytes")
                file.write(data)
            os.fchmod(file.fileno(), mode)


def _parse_owner(text: str) -> tuple[int, int]:
    """Return the user id and group id of `USER[:GROUP]`."""
    name, _, group = text.partition(":")
    try:
        user = int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise RefusedArchive(f"user {name[:100]!r} does not exist in the template, so it cannot own the copied files")
    group = group or name
    if group.isdigit():
        return user, int(group)
    try:
        return user, grp.getgrnam(group).gr_gid
    except KeyError:
        if group != name:
            raise RefusedArchive(
                f"group {group[:100]!r} does not exist in the template, so it cannot own the copied files"
            )
        return user, pwd.getpwuid(user).pw_gid


def _find_source(top: str, pattern: str) -> str:
    """Return the path to copy: the pattern itself, or the folder before its first part with a wildcard."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    stack: list[str] = []
    for part in parts:
        if part == "..":
            del stack[-1:]
        else:
            stack.append(part)
    path = os.path.join(top, *stack)
    if os.path.lexists(path):
        return path
    plain = []
    for part in stack:
        if GLOB & set(part):
            break
        plain.append(part)
    path = os.path.join(top, *plain)
    if len(plain) < len(stack) and os.path.isdir(path) and not os.path.islink(path):
        return path
    raise RefusedArchive(f"no file of the archive matches {pattern[:200]!r}")


def set_attributes(path: str, owner: tuple[int, int], mode: int | None) -> None:
    """Set the owner of a tree and, if given, its mode; links are not followed."""
    os.lchown(path, *owner)
    if os.path.islink(path):
        return
    if os.path.isdir(path):
        for name in os.listdir(path):
            set_attributes(os.path.join(path, name), owner, mode)
    if mode is not None:
        os.chmod(path, mode)


def make_folders(path: str, owner: tuple[int, int]) -> None:
    """Create a folder and its missing parents; new ones get the owner."""
    if os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise RefusedArchive(f"{path[:200]!r} exists already and is not a folder")
    make_folders(os.path.dirname(path), owner)
    os.mkdir(path, 0o755)
    os.lchown(path, *owner)


def _merge(source: str, target: str, owner: tuple[int, int]) -> None:
    """Move the content of one folder into another; folders of the same name are merged."""
    make_folders(target, owner)
    for name in os.listdir(source):
        old, new = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(old) and not os.path.islink(old) and os.path.isdir(new) and not os.path.islink(new):
            _merge(old, new, owner)
        else:
            replace(old, new)


def replace(old: str, new: str) -> None:
    """Move a file, link or folder to a name; a file there is replaced."""
    try:
        os.replace(old, new)
    except OSError as e:
        raise RefusedArchive(f"{new[:200]!r} cannot be written: {e.strerror}")


def place_files(top: str, order: dict[str, Any]) -> None:
    owner = _parse_owner(order["owner"])
    mode = int(order["mode"], 8) & 0o777 if order["mode"] else None
    source = _find_source(top, order["source"])
    target = order["target"]
    set_attributes(source, owner, mode)
    if os.path.isdir(source) and not os.path.islink(source):
        _merge(source, target.rstrip("/") or "/", owner)
        return
    if target.endswith("/") or os.path.isdir(target):
        target = os.path.join(target, os.path.basename(source))
    make_folders(os.path.dirname(target), owner)
    replace(source, target)


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    sys.setrecursionlimit(10000)
    os.umask(0o022)
    staging = tempfile.mkdtemp(prefix=".copy-", dir="/")
    try:
        top = os.open(staging, FOLDER)
        Unpacking(top, order["entries"], order["size"]).run(sys.stdin.buffer)
        place_files(staging, order)
    except RefusedArchive as e:
        sys.exit(str(e))
    except OSError as e:
        sys.exit(f"{e.strerror}: {e.filename}" if e.filename else str(e.strerror))
    finally:
        shutil.rmtree(staging, ignore_errors=True)


if __name__ == "__main__":
    main()
