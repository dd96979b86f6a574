"""Copies of image layers that no working desk ever uses, each a file with a superblock of its own.

A kernel flaw that lets a program write to the page cache of a read-only file affects every reader of that file. Desks
that verify results use these copies, so that nothing a working desk did to its own image is present. `sterilize` makes
them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.desk.image.image import Image
from hotdesk.errors import ImageError
from hotdesk.linux import loopdev, syscalls

KINDS = {"erofs": None, "ext4": "noload"}
"""File systems a copy may have, the preferred first, and the mount options of each."""
FLAGS = syscalls.MS_RDONLY | syscalls.MS_NODEV | syscalls.MS_NOSUID
OOPSED = 1 << 7
"""The bit in /proc/sys/kernel/tainted that is set once the kernel has oopsed."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Mounted:
    """The identity of a copy at the time it was mounted."""

    device: int
    inode: int
    written: int
    suspect: bool
    """Whether the kernel had oopsed by then, so that the file was compared with its digest."""


class Sterile:
    """The copies one keeper has mounted, in its private mount namespace, until it ends."""

    def __init__(self, store: Path, private: Path) -> None:
        self.store = store
        self.private = private
        self.mounted: dict[str, Mounted] = {}

    def show(self, image: Image) -> dict[Path, Path]:
        """Return the sterile path of each layer of an image, mounting copies on first use."""
        missing = list_uncopied_layers(self.store, image)
        if missing:
            raise ImageError(
                f"image {image.name!r} has no copy of layer {missing[0].name[:12]} for desks that verify files: "
                f"run `hotdesk image build {image.name}`, or import the image again"
            )
        return {layer: self.mount(layer.name, read_kernel_taint()) for layer in image.layers}

    def mount(self, digest: str, tainted: int) -> Path:
        """Mount a layer's copy if it is not mounted. Mount it again if the file changed, or the kernel oopsed since."""
        file, kind = find_copy(self.store, digest)
        at = self.private / f"sterile-{digest}"
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            info = os.fstat(fd)
            expected = Mounted(info.st_dev, info.st_ino, info.st_mtime_ns, is_suspect(tainted))
            if self.mounted.get(digest) == expected:
                return at
            if self.mounted.pop(digest, None):
                syscalls.umount(str(at))
            if expected.suspect:
                verify(fd, file)
            at.mkdir(mode=0o700, exist_ok=True)
            attach(fd, kind, at)
        finally:
            os.close(fd)
        self.mounted[digest] = expected
        return at


def attach(fd: int, kind: str, at: Path) -> None:
    """Mount an open file read-only, through a loop device that disappears with the mount."""
    device, loop = loopdev.attach(fd, "hotdesk-sterile")
    try:
        syscalls.mount(device, str(at), kind, FLAGS, KINDS[kind])
    except OSError as e:
        raise ImageError(
            f"the image copy {os.readlink(f'/proc/self/fd/{fd}')} for desks that verify files cannot be mounted: {e}; "
            "remove that file, then run `hotdesk image build`, or import the image again"
        ) from e
    finally:
        os.close(loop)


def read_kernel_taint() -> int:
    return int(Path("/proc/sys/kernel/tainted").read_text())


def is_suspect(tainted: int) -> bool:
    """Return whether a program made the kernel oops, so that the page cache may be corrupt."""
    return bool(tainted & OOPSED)


def verify(fd: int, file: Path) -> None:
    """Read an open copy back from the disk, and compare it with its stored digest."""
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        expected = get_digest_path(file).read_text().strip()
    except OSError:
        expected = "nothing"
    if compute_digest(fd) != expected:
        raise ImageError(
            f"the kernel has reported an internal error (oops), and {file} does not match its digest: reboot; if it "
            "still does not match, remove that file, then run `hotdesk image build`, or import the image again"
        )


def compute_digest(fd: int) -> str:
    sha256, at = hashlib.sha256(), 0
    while data := os.pread(fd, CHUNK, at):
        sha256.update(data)
        at += len(data)
    return sha256.hexdigest()


# -- paths of copies --------------------------------------------------------------------------------------------


def get_folder(store: Path) -> Path:
    return store / "sterile"


def get_copy_path(store: Path, digest: str, kind: str) -> Path:
    return get_folder(store) / f"{digest}.{kind}"


def get_digest_path(file: Path) -> Path:
    return file.with_name(f"{file.name}.sha256")


def find_copy(store: Path, digest: str) -> tuple[Path, str]:
    for kind in KINDS:
        if (file := get_copy_path(store, digest, kind)).is_file():
            return file, kind
    raise ImageError(
        f"layer {digest[:12]} has no copy for desks that verify files: run `hotdesk image build`, or import the image "
        "again"
    )


def list_uncopied_layers(store: Path, image: Image) -> list[Path]:
    return [
        layer for layer in image.layers if not any(get_copy_path(store, layer.name, kind).is_file() for kind in KINDS)
    ]


def list_copies(store: Path) -> set[str]:
    names = os.listdir(get_folder(store)) if get_folder(store).is_dir() else []
    return {name.partition(".")[0] for name in names if "." in name}


def forget(store: Path, digest: str) -> int:
    """Remove all copies of a layer; return the bytes they took. Existing mounts keep theirs."""
    size = 0
    for file in get_folder(store).glob(f"{digest}.*"):
        size += file.lstat().st_blocks * 512
        file.unlink(missing_ok=True)
    return size
