"""Make sterile copies of image layers: `python -m hotdesk.desk.image.sterilize`, in a mount namespace of its own.

A copy is kept only if this kernel can mount it and map its owners to a desk's user ids. File systems are tried in
order: erofs, then ext4.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hotdesk.config import MIB
from hotdesk.desk.image import sterile
from hotdesk.desk.image.image import Image
from hotdesk.errors import HostError, ImageError, make_printable
from hotdesk.linux import loopdev, syscalls, uids, user_namespace
from hotdesk.linux.filelock import hold_lock

TOOLS = "/usr/sbin:/usr/bin:/sbin:/bin"
COPY_TIMEOUT_S = 900.0
"""Seconds copying one layer may take."""
BLOCK = 4096
_SLACK = 64 * MIB
"""Extra bytes for ext4's own tables; the file is sparse."""


def make(
    store: Path,
    image: Image,
    progress: Callable[[str], None],
    kinds: Iterable[str] = sterile.KINDS,
    tainted: int | None = None,
) -> bool:
    """Copy the layers of an image that have no sterile copy; return False if all have one."""
    missing = sterile.list_uncopied_layers(store, image)
    if missing and sterile.is_suspect(sterile.read_kernel_taint() if tainted is None else tainted):
        raise HostError(
            f"cannot copy image {image.name!r} for desks that verify files: the kernel has reported an internal error "
            "(oops), so its cache of the image may be corrupt; reboot, then try again"
        )
    for layer in missing:
        progress(f"{image.name}: copying layer {layer.name[:12]} for desks that verify files")
        carry_out(store, layer.name, tuple(kinds))
    return bool(missing)


def carry_out(store: Path, digest: str, kinds: tuple[str, ...]) -> None:
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
    argv = [*alone, sys.executable, "-P", "-m", "hotdesk.desk.image.sterilize", str(store), digest, *kinds]
    env = {"PATH": TOOLS} | {name: value for name in ("PYTHONPATH",) if (value := os.environ.get(name))}
    try:
        done = subprocess.run(
            argv, check=False, env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=COPY_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise HostError(f"cannot copy layer {digest[:12]} for desks that verify files: {e}") from e
    if done.returncode:
        error = make_printable(done.stderr.decode(errors="replace").strip()[-600:])
        why = error or "the process was killed"
        raise HostError(f"cannot copy layer {digest[:12]} for desks that verify files: {why}")


def main() -> None:
    store, digest, *kinds = sys.argv[1:]
    os.umask(0o077)
    try:
        copy(Path(store), digest, kinds)
    except (OSError, HostError, ImageError) as e:
        sys.exit(str(e))


def copy(store: Path, digest: str, kinds: Iterable[str]) -> None:
    """Copy a layer, unless another process has just done so. Failed attempts leave no files."""
    place = sterile.get_folder(store)
    place.mkdir(mode=0o700, exist_ok=True)
    failures = []
    with hold_lock(place / "lock"), hold_layer(store / "layers" / digest) as layer:
        if any(sterile.get_copy_path(store, digest, kind).is_file() for kind in sterile.KINDS):
            return
        _check_room(layer, place)
        _drop_cached(layer)
        for kind in kinds:
            fresh = sterile.get_copy_path(store, digest, f"{kind}.new")
            fresh.unlink(missing_ok=True)  # a tool that outlived its killed parent may still write to it
            try:
                write(kind, layer, fresh)
                prove(kind, fresh, place / "proof")
                keep(fresh, sterile.get_copy_path(store, digest, kind))
                return
            except (OSError, HostError, ImageError) as e:
                failures.append(f"{kind}: {e}")
            finally:
                fresh.unlink(missing_ok=True)
    raise HostError("; ".join(failures))


@contextmanager
def hold_layer(layer: Path) -> Iterator[Path]:
    """Hold a shared lock on a layer, as a desk does, so that it is not removed meanwhile."""
    try:
        fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as e:
        raise ImageError(f"layer {layer.name[:12]} does not exist: build or import its image again") from e
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield layer
    finally:
        os.close(fd)


def _check_room(layer: Path, place: Path) -> None:
    """Refuse a layer that would not fit on the disk: erofs writes out the holes of sparse files."""
    size, disk = measure(layer)[0], os.statvfs(place)
    if size > disk.f_bavail * disk.f_frsize:
        free = disk.f_bavail * disk.f_frsize
        raise HostError(
            f"the copy needs {size >> 20} MiB of disk (sparse files count in full), but {free >> 20} MiB are free; "
            "free disk space, then try again"
        )


def _drop_cached(layer: Path) -> None:
    """Drop the layer's unused pages from the cache, so that it is read from the disk."""
    for _, _, names, folder in os.fwalk(layer):
        for name in names:
            with suppress(OSError):  # a link, or a device
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def write(kind: str, layer: Path, file: Path) -> None:
    if kind == "erofs":
        run_tool("mkfs.erofs", "--quiet", str(file), str(layer))
    elif kind == "ext4":
        _write_ext4(layer, file)
    else:
        raise HostError(f"hotdesk cannot write the file system {kind}")
    file.chmod(0o600)


def _write_ext4(layer: Path, file: Path) -> None:
    """Write an ext4 without journal and lost+found, whose root folder has the layer's owner, mode and times."""
    size, count = measure(layer)
    with file.open("wb") as out:
        out.truncate((size + size // 8 + _SLACK) // MIB * MIB)
    options = ["-q", "-F", "-m0", f"-b{BLOCK}", f"-N{count + 1024}", "-O", "^has_journal", "-E", "nodiscard"]
    run_tool("mkfs.ext4", *options, "-d", str(layer), str(file))
    at = file.with_suffix(".rw")
    with _mount_file("ext4", file, at, sterile.FLAGS & ~syscalls.MS_RDONLY):
        (at / "lost+found").rmdir()
        info = layer.stat()
        os.chown(at, info.st_uid, info.st_gid)
        at.chmod(info.st_mode & 0o7777)
        os.utime(at, ns=(info.st_atime_ns, info.st_mtime_ns))


def measure(layer: Path) -> tuple[int, int]:
    """Return the bytes of a tree in whole blocks, with room for each file's metadata, and its number of files."""
    size = count = 0
    for _, folders, names, folder in os.fwalk(layer):
        for name in (*folders, *names):
            size += -(-os.lstat(name, dir_fd=folder).st_size // BLOCK) * BLOCK + 2 * BLOCK
            count += 1
    return size, count


def prove(kind: str, file: Path, at: Path) -> None:
    """Mount a copy as a keeper does, with owners mapped as for a desk; raise an error if this kernel cannot."""
    with _mount_file(kind, file, at, sterile.FLAGS):
        owner = os.stat(at).st_uid
        ids = uids.format_id_map(uids.FIRST)
        userns = user_namespace.make(uids.FIRST + uids.ANCHOR, ids)
        try:
            syscalls.mount_idmapped(str(at), str(at), userns)
        finally:
            os.close(userns)
        try:
            if os.stat(at).st_uid == owner:
                raise HostError(f"this kernel cannot map the owners of files on {kind} to a desk's user ids")
        finally:
            syscalls.umount(str(at))


@contextmanager
def _mount_file(kind: str, file: Path, at: Path, flags: int) -> Iterator[None]:
    at.mkdir(mode=0o700, exist_ok=True)
    is_read = bool(flags & syscalls.MS_RDONLY)
    fd = os.open(file, (os.O_RDONLY if is_read else os.O_RDWR) | os.O_CLOEXEC)
    try:
        device, loop = loopdev.attach(fd, "hotdesk-sterile")
    finally:
        os.close(fd)
    try:
        syscalls.mount(device, str(at), kind, flags, sterile.KINDS[kind] if is_read else None)
    finally:
        os.close(loop)
    try:
        yield
    finally:
        syscalls.umount(str(at))
        at.rmdir()


def keep(fresh: Path, file: Path) -> None:
    """Move a copy into place after writing its sha256, so that every copy has one."""
    fd = os.open(fresh, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
        digest = sterile.compute_digest(fd)
    finally:
        os.close(fd)
    with sterile.get_digest_path(file).open("w") as out:
        out.write(f"{digest}\n")
        out.flush()
        os.fsync(out.fileno())
    fresh.rename(file)


def run_tool(*argv: str) -> None:
    """Run a tool that writes a file system; it dies with this process."""
    if shutil.which(argv[0], path=TOOLS) is None:
        raise HostError(f"{argv[0]} is not installed; run `hotdesk setup`")
    try:
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", *argv], check=False, stdin=subprocess.DEVNULL, capture_output=True
        )
    except FileNotFoundError as e:
        raise HostError("setpriv is not installed; run `hotdesk setup`") from e
    if done.returncode:
        raise HostError(f"{argv[0]} failed: {done.stderr.decode(errors='replace').strip()[-300:]}")


if __name__ == "__main__":
    main()
