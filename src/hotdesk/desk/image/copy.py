"""Copy a tree that a desk wrote: links are not followed, nothing blocks, no privileges are copied, everything is
counted.

Two descriptors are open at a time at any depth. The copy descends by name and returns by `..`, and stops if a directory
it opens is not the expected one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import field
from itertools import islice
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.content import copy_content
from hotdesk.desk.image.image import OPAQUE
from hotdesk.errors import ImageError, make_printable
from hotdesk.linux.openat2 import open_strictly

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
RIGHTS = 0o6000
NOBODY = 65534
MAX_PATH = 4095
"""Maximum bytes of a path; deeper entries have no path."""
MAX_DEPTH = 256
"""Maximum levels of an image's tree: what reads an image takes a descriptor and a stack frame for each."""
SHOWN = 200

_PathTest = Callable[[int, bytes], bool]
"""Tests a path, given the open directory of its last component."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits for a copied tree."""

    entries: int = 2_000_000
    size: int = 64 << 30
    """Bytes written: content without its holes, and extended attributes."""
    depth: int = MAX_DEPTH


@dataclass(slots=True)
class Level:
    """A directory between the root and the current place of the copy."""

    name: bytes
    path: bytes | None
    """With a trailing slash; `None` if it is longer than a path can be."""
    names: list[bytes]
    """Names not yet copied, the next one last."""
    info: os.stat_result
    copy_info: os.stat_result
    """The status of the directory's copy."""
    opaque: bool
    """Whether the directory hides everything of the layers below."""


@dataclass(slots=True)
class Copy:
    """The state of a copy. `digest` covers names, kinds, modes, owners, attributes, targets and content, not times."""

    source: int
    target: int
    links: int
    """A private directory with an extra hard link to each file that has several names, while the copy runs."""
    skips: _PathTest
    """Returns whether a path is left out."""
    covers: _PathTest
    """Returns whether a layer below would be visible at a path where the copy has nothing."""
    limits: TreeLimits
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    levels: list[Level] = field(default_factory=list)
    linked: dict[int, int] = field(default_factory=dict)
    """Numbers of the files with several names, by inode."""
    at: bytes = b""
    """The name that is being copied, for error messages."""
    entries: int = 0
    size: int = 0

    def run(self) -> None:
        """Copy everything, or raise `ImageError` with the path and the reason."""
        try:
            self.begin(b"", os.fstat(self.source))
            while self.levels:
                if names := self.levels[-1].names:
                    self.at = names.pop()
                    self.put(self.at, os.lstat(self.at, dir_fd=self.source))
                else:
                    self.finish()
        except OSError as e:
            raise self.make_error(f"cannot be copied: {e.strerror}") from e

    def close(self) -> None:
        os.close(self.source)
        os.close(self.target)

    def put(self, name: bytes, info: os.stat_result) -> None:
        top = self.levels[-1]
        if len(self.levels) > self.limits.depth:
            raise self.make_error(
                f"is nested more than {self.limits.depth} levels deep, which is the limit for an image"
            )
        if info.st_dev != self.levels[0].info.st_dev:
            raise self.make_error("is a mount point; an image can only have files of one file system")
        path = self.get_path(name)
        if path is not None and self.skips(self.source, path):
            return
        kind = stat.S_IFMT(info.st_mode)
        if kind == stat.S_IFDIR:
            self.enter(name, info)
        elif kind in (stat.S_IFREG, stat.S_IFLNK):
            self.put_linked(name, info)
        elif _is_whiteout(info) or (path is not None and not top.opaque and self.covers(self.source, path)):
            os.mknod(name, stat.S_IFCHR, 0, dir_fd=self.target)
            self.note(b"w", name)

    def enter(self, name: bytes, info: os.stat_result) -> None:
        self.source = _replace_fd(self.source, open_strictly(self.source, name, FOLDER))
        self.expect(self.source, info)
        os.mkdir(name, 0o700, dir_fd=self.target)
        self.target = _replace_fd(self.target, os.open(name, FOLDER, dir_fd=self.target))
        self.begin(name, info)

    def begin(self, name: bytes, info: os.stat_result) -> None:
        xattrs = self.set_attributes(self.source, self.target, info)
        names = sorted(self.list_names(), reverse=True)
        self.note(b"d", name, _encode_attributes(info), *xattrs)
        path = self.get_path(name + b"/") if self.levels else b""
        opaque = os.fsencode(OPAQUE) in xattrs[::2] or bool(self.levels and self.levels[-1].opaque)
        self.levels.append(Level(name, path, names, info, os.fstat(self.target), opaque))

    def list_names(self) -> list[bytes]:
        """Return the names in the open directory; stop reading at the limit, as a desk may have made any number."""
        remaining = self.limits.entries - self.entries
        with os.scandir(self.source) as entries:
            names = [os.fsencode(entry.name) for entry in islice(entries, remaining + 1)]
        if len(names) > remaining:
            raise ImageError(
                f"the folder to copy has more than {self.limits.entries} files and folders, which is the limit for an "
                "image"
            )
        self.entries += len(names)
        return names

    def finish(self) -> None:
        done = self.levels.pop()
        self.at = done.name
        os.utime(self.target, ns=(done.info.st_mtime_ns, done.info.st_mtime_ns))
        self.note(b"u")
        if self.levels:
            self.source = _replace_fd(self.source, os.open("..", FOLDER, dir_fd=self.source))
            self.expect(self.source, self.levels[-1].info)
            self.target = _replace_fd(self.target, os.open("..", FOLDER, dir_fd=self.target))
            self.expect(self.target, self.levels[-1].copy_info)

    def put_linked(self, name: bytes, info: os.stat_result) -> None:
        number = self.linked.get(info.st_ino)
        if number is not None:
            os.link(b"%d" % number, name, src_dir_fd=self.links, dst_dir_fd=self.target, follow_symlinks=False)
            self.note(b"h", name, b"%d" % number)
            return
        if stat.S_ISREG(info.st_mode):
            self.put_file(name, info)
        else:
            self.put_symlink(name, info)
        if info.st_nlink > 1:
            number = self.linked[info.st_ino] = len(self.linked)
            os.link(name, b"%d" % number, src_dir_fd=self.target, dst_dir_fd=self.links, follow_symlinks=False)

    def put_file(self, name: bytes, info: os.stat_result) -> None:
        with ExitStack() as stack:
            old = open_strictly(self.source, name, os.O_RDONLY | os.O_NOATIME)
            stack.callback(os.close, old)
            self.expect(old, info)
            new = os.open(name, _NEW_FILE, 0o600, dir_fd=self.target)
            stack.callback(os.close, new)
            content = copy_content(old, new, info.st_size, self.spend)
            xattrs = self.set_attributes(old, new, info)
            os.utime(new, ns=(info.st_mtime_ns, info.st_mtime_ns))
        self.note(b"f", name, _encode_attributes(info), b"%d" % info.st_size, content, *xattrs)

    def put_symlink(self, name: bytes, info: os.stat_result) -> None:
        leads = os.readlink(name, dir_fd=self.source)
        os.symlink(leads, name, dir_fd=self.target)
        os.chown(name, clamp_owner(info.st_uid), clamp_owner(info.st_gid), dir_fd=self.target, follow_symlinks=False)
        os.utime(name, ns=(info.st_mtime_ns, info.st_mtime_ns), dir_fd=self.target, follow_symlinks=False)
        self.note(b"l", name, _encode_attributes(info), leads)

    def set_attributes(self, old: int, new: int, info: os.stat_result) -> list[bytes]:
        """Set an open file's owner, mode and extended attributes, without privileges; return the attributes."""
        os.fchown(new, clamp_owner(info.st_uid), clamp_owner(info.st_gid))
        os.fchmod(new, stat.S_IMODE(info.st_mode) & ~RIGHTS)
        xattrs = []
        for key in sorted(os.listxattr(old)):
            value = os.getxattr(old, key)
            if key.startswith("user.") or (key, value) == (OPAQUE, b"y"):
                self.spend(len(value))
                os.setxattr(new, key, value)
                xattrs += [os.fsencode(key), value]
        return xattrs

    def expect(self, fd: int, info: os.stat_result) -> None:
        found = os.fstat(fd)
        if not os.path.samestat(found, info) or stat.S_IFMT(found.st_mode) != stat.S_IFMT(info.st_mode):
            raise self.make_error("changed while it was copied; try again")

    def spend(self, size: int) -> None:
        """Count bytes before they are written, and refuse to exceed the limit."""
        self.size += size
        if self.size > self.limits.size:
            raise self.make_error(
                f"does not fit: the image would need more than the available {self.limits.size} bytes"
            )

    def note(self, kind: bytes, *parts: bytes) -> None:
        """Add an entry to the digest, encoded so that no two different trees give the same bytes."""
        self.digest.update(b"%b%d;" % (kind, len(parts)) + b"".join(b"%d:%b" % (len(part), part) for part in parts))

    def get_path(self, name: bytes) -> bytes | None:
        """Return the path of a name in the open directory, or `None` if it is longer than a path can be."""
        above = self.levels[-1].path
        return None if above is None or len(above) + len(name) > MAX_PATH else above + name

    def make_error(self, why: str) -> ImageError:
        path = b"/".join([*(level.name for level in self.levels[1:]), self.at])
        shown = make_printable(os.fsdecode(path[-SHOWN:]))
        return ImageError(f"{'...' if len(path) > SHOWN else '/'}{shown} {why}")


def copy(source: int, tree: Path, links: Path, skips: _PathTest, covers: _PathTest, limits: TreeLimits) -> str:
    """Copy the tree open as `source` into the empty directory `tree`; return its digest.

    `links` is an empty directory on the same file system.
    """
    with ExitStack() as stack:
        beside = os.open(links, FOLDER)
        stack.callback(os.close, beside)
        tree_copy = Copy(os.open(".", FOLDER, dir_fd=source), os.open(tree, FOLDER), beside, skips, covers, limits)
        stack.callback(tree_copy.close)
        tree_copy.run()
    return tree_copy.digest.hexdigest()


def _replace_fd(old: int, new: int) -> int:
    os.close(old)
    return new


def _is_whiteout(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == 0


def _encode_attributes(info: os.stat_result) -> bytes:
    return b"%o %d %d" % (stat.S_IMODE(info.st_mode) & ~RIGHTS, clamp_owner(info.st_uid), clamp_owner(info.st_gid))


def clamp_owner(number: int) -> int:
    """Return the id if it is in a desk's range of user ids, else the id of `nobody`."""
    return number if 0 <= number < 1 << 16 else NOBODY
