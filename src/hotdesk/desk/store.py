"""The image store: made in `tmp/`, renamed into place, one writer at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hotdesk.desk.image import Image, as_name, dump, find, ls, record_path
from hotdesk.errors import HostError, ImageError

Progress = Callable[[str], None]


@contextmanager
def writing(store: Path, progress: Progress) -> Iterator[tuple[Path, int]]:
    """Hold the store's lock; give a fresh work directory in it and the lock's descriptor.

    Children that write below the directory get the descriptor too: should this process be killed, the lock
    stays taken until they are gone, and nobody sweeps under them.
    """
    for folder in (store, store / "tmp", store / "layers", store / "images"):
        make_private(folder)
    lock = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        take(lock, store, progress)
        for left in (store / "tmp").iterdir():
            discard(left)
        work = Path(tempfile.mkdtemp(dir=store / "tmp"))
        try:
            yield work, lock
        finally:
            discard(work)
    finally:
        os.close(lock)


def make_private(folder: Path) -> None:
    """Make a directory only its owner can enter: layers hold files of the host's root."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as e:
        raise HostError(f"the image store {folder} cannot be made: {e.strerror}; run as root") from e


def take(lock: int, store: Path, progress: Progress) -> None:
    """Take the store's lock, saying so when another process has it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(f"waiting: another process is writing to {store}")
        fcntl.flock(lock, fcntl.LOCK_EX)


def discard(path: Path) -> None:
    """Remove a tree of ours, whatever it is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def publish(store: Path, image: Image, tree: Path) -> Image:
    """Put an image in place: `tree` as its topmost layer, unless it is that already, then its name."""
    if tree != image.layers[0]:
        subprocess.run(["sync", "-f", str(tree)], check=False)
        tree.rename(image.layers[0])
    handle, name = tempfile.mkstemp(dir=store / "tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(dump(image))
        file.flush()
        os.fsync(file.fileno())
    Path(name).rename(record_path(store, image.name))
    return image


def rm(store: Path, name: str, in_use: Collection[str] = ()) -> None:
    """Remove an image and the layers only it uses; `in_use` names the images of open desks."""
    if as_name(name) in in_use:
        raise ImageError(f"image {name!r} has open desks: burn them first, `hotdesk ps` lists them")
    if not store.is_dir():
        find(store, name)
    with writing(store, lambda line: None) as (work, _):
        image = find(store, name)
        shared = {layer for other in ls(store) if other.name != name for layer in other.layers}
        own = [layer for layer in image.layers if layer not in shared]
        with ExitStack() as held:
            for layer in own:
                held.enter_context(unused(layer, name))
            record_path(store, name).unlink()
            for layer in own:
                layer.rename(work / layer.name)


@contextmanager
def unused(layer: Path, name: str) -> Iterator[None]:
    """Make sure that nobody holds a shared lock on a layer, as whoever mounts it does."""
    fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as e:
        raise ImageError(f"image {name!r} is in use: burn its desks first, `hotdesk ps` lists them") from e
    finally:
        os.close(fd)


def disk_usage(tree: Path) -> int:
    """Count the bytes a tree takes on disk, hard links once."""
    seen: set[int] = set()
    total = 0
    for _, folders, files, fd in os.fwalk(tree):
        for name in (*folders, *files):
            info = os.lstat(name, dir_fd=fd)
            if info.st_ino not in seen:
                seen.add(info.st_ino)
                total += info.st_blocks * 512
    return total
