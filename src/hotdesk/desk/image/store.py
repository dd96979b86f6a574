"""The image store: images are written in `tmp/` and renamed into place, by one writer at a time."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal

from hotdesk.dataclass import dataclass
from hotdesk.desk.image import guest_code, pin, sterile
from hotdesk.desk.image.image import Image, as_name, dump, find, get_record_path, get_template_folder, parse
from hotdesk.errors import HostError, ImageError, make_printable

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """A tree that was removed because nothing needed it."""

    kind: Literal["layer", "copy", "guest", "machine"]
    name: str
    size: int
    """Bytes it took on disk."""


@contextmanager
def writing(store: Path, progress: Progress) -> Iterator[tuple[Path, int]]:
    """Hold the store's lock; yield a new work directory in the store and the lock's descriptor.

    Children that write below the directory get the descriptor too: if this process is killed, the lock stays taken
    until they have ended, and no other process cleans up the directory meanwhile.
    """
    for folder in (store, store / "tmp", store / "layers", store / "images"):
        make_private(folder)
    lock = os.open(store / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        take(lock, store, progress)
        for leftover in (store / "tmp").iterdir():
            _try_to_discard(leftover, progress)
        work = Path(tempfile.mkdtemp(dir=store / "tmp"))
        try:
            yield work, lock
        finally:
            _try_to_discard(work, progress)
    finally:
        os.close(lock)


def make_private(folder: Path) -> None:
    """Make a directory that only its owner can enter: layers contain files that belong to the host's root."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as e:
        raise HostError(f"cannot create the image store {folder}: {e.strerror}; run as root") from e


def take(lock: int, store: Path, progress: Progress) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        progress(f"waiting: another process is writing to {store}")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _try_to_discard(path: Path, progress: Progress) -> None:
    """Remove a path in the store, or report why not: one that cannot be removed must not stop what comes after it."""
    try:
        discard(path)
    except HostError as e:
        progress(str(e))


def discard(path: Path) -> None:
    """Remove a file or a tree of any depth: `rm` needs neither a stack frame nor a descriptor for each level."""
    done = subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(path)], check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
    if done.returncode != 0:
        why = make_printable(done.stderr.decode(errors="replace").strip()[-500:])
        raise HostError(f"{path} cannot be removed ({why}); remove it yourself")


def publish(store: Path, image: Image, tree: Path) -> Image:
    """Publish an image: move `tree` into place as its topmost layer, unless it is already, then write the record."""
    if tree != image.layers[0]:
        subprocess.run(["sync", "-f", str(tree)], check=False)
        tree.rename(image.layers[0])
    handle, name = tempfile.mkstemp(dir=store / "tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(dump(image))
        file.flush()
        os.fsync(file.fileno())
    Path(name).rename(get_record_path(store, image.name))
    return image


def rm(store: Path, name: str, in_use: Collection[str] = ()) -> None:
    """Remove an image and the layers only it uses. `in_use` has the names of open desks' images."""
    if as_name(name) in in_use:
        raise ImageError(f"image {name!r} has open desks; burn them first, `hotdesk ps` lists them")
    if not store.is_dir():
        find(store, name)
    record = get_record_path(store, name)
    with writing(store, lambda line: None) as (work, _):
        if not record.exists():
            find(store, name)
        image, others = read_record(store, record), list(_read_others(store, record))
        shared = {layer for other in others for layer in other.layers}
        own = [layer for layer in image.layers if layer not in shared and layer.is_dir()]
        for desk, pinned in pin.list_pinned(store).items():
            if not {*own}.isdisjoint(pinned.layers):
                raise ImageError(
                    f"image {name!r} is needed by the hibernated desk {desk.removesuffix(pin.STAGE)}; "
                    "resume or burn it first"
                )
        with ExitStack() as stack:
            for layer in own:
                stack.enter_context(lock_layer(layer, name))
            record.unlink()
            for layer in own:
                layer.rename(work / layer.name)
                sterile.forget(store, layer.name)
            if not any(other.digest == image.digest for other in others):
                discard(get_template_folder(store, image.digest))


def _read_others(store: Path, record: Path) -> Iterator[Image]:
    """Yield the other images, also those that lack a layer: their other layers may be all that is left of them."""
    for path in (store / "images").iterdir():
        if path != record:
            with suppress(ImageError):
                yield read_record(store, path)


def restore(store: Path, image: Image) -> None:
    """Give a name back to its previous image; the next sweep removes the other image's layers."""
    with writing(store, lambda line: None):
        publish(store, image, image.layers[0])


@contextmanager
def lock_layer(layer: Path, name: str) -> Iterator[None]:
    """Hold an exclusive lock on a layer, to make sure that no desk uses it."""
    fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as e:
        raise ImageError(f"image {name!r} is in use; burn its desks first, `hotdesk ps` lists them") from e
    finally:
        os.close(fd)


def sweep(store: Path, progress: Progress) -> list[Swept]:
    """Remove layers no image or desk needs, their copies, unused VM templates, and outdated guest bytecode."""
    if not store.is_dir():
        return []
    with writing(store, progress) as (work, _):
        images = [read_record(store, path) for path in sorted((store / "images").iterdir())]
        pin.tidy(store)
        pinned = list(pin.list_pinned(store).values())
        named = {layer for image in (*images, *pinned) for layer in image.layers}
        swept = [
            _sweep_away(layer, work, "layer", layer.name)
            for layer in sorted((store / "layers").iterdir())
            if layer not in named and _is_free(layer)
        ]
        here = set(os.listdir(store / "layers"))
        swept += [
            Swept("copy", each, sterile.forget(store, each)) for each in sorted(sterile.list_copies(store) - here)
        ]
        used = {image.digest for image in images}
        swept += [
            _sweep_away(folder, work, "machine", folder.name)
            for folder in sorted((store / "vm").glob("*"))
            if folder.name not in used
        ]
        for folder in sorted((store / "guest").glob("*/*")):
            if not is_current_bytecode(folder, store, images):
                swept.append(_sweep_away(folder, work, "guest", f"{folder.parent.name}/{folder.name}"))
    for folder in (store / "guest").glob("*"):
        with suppress(OSError):
            folder.rmdir()
    return swept


def read_record(store: Path, path: Path) -> Image:
    """Read an image's record, even if a layer is missing. Raise `ImageError` if it is damaged."""
    try:
        return parse(store, path.read_bytes())
    except ValueError as e:
        raise ImageError(
            f"{path} is damaged ({e}), so the image's layers are unknown; remove the file and try again"
        ) from e


def is_current_bytecode(folder: Path, store: Path, images: Collection[Image]) -> bool:
    """Return whether bytecode is complete, for an existing image, and of the installed guest's version."""
    source = guest_code.read_sources()
    used = {guest_code.get_folder(store, image.digest, source) for image in images}
    return folder in used and all(_has_bytes(folder / name) for name in guest_code.SEALED)


def _has_bytes(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _is_free(layer: Path) -> bool:
    try:
        with lock_layer(layer, layer.name):
            return True
    except ImageError:
        return False


def _sweep_away(path: Path, work: Path, kind: Literal["layer", "guest", "machine"], name: str) -> Swept:
    size = measure_disk_usage(path)
    path.rename(Path(tempfile.mkdtemp(dir=work)) / "swept")
    return Swept(kind, name, size)


def measure_disk_usage(tree: Path) -> int:
    """Return the bytes a tree takes on disk, counting hard links once."""
    inodes: set[int] = set()
    total = 0
    for _, folders, files, fd in os.fwalk(tree):
        for name in (*folders, *files):
            info = os.lstat(name, dir_fd=fd)
            if info.st_ino not in inodes:
                inodes.add(info.st_ino)
                total += info.st_blocks * 512
    return total
