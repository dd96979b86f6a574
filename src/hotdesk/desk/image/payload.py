"""Write an image's files as one deterministic tar: `python -m hotdesk.desk.image.payload STORE NAME`, to descriptor 1.

The layers are merged by an overlay mount, in a mount namespace that ends with the process. Names are sorted and the
output depends on the files alone: the same image gives the same bytes. Device nodes, sockets and pipes are left out,
and setuid and setgid bits are cleared, as on import.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import stat
import subprocess
import sys
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from hotdesk.desk.image.image import Image, find
from hotdesk.desk.image.untar import ArchiveBudget, ArchiveLimits, check_path
from hotdesk.errors import HotdeskError, ImageError, make_printable
from hotdesk.linux import syscalls

LEVEL = 6
LIMITS = ArchiveLimits()
EXPORT_TIMEOUT_S = 3600.0
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def export(store: Path, name: str, target: int) -> ArchiveBudget:
    """Write an image's payload into an open file, in a child process; return the entries and bytes it contains."""
    alone = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private"]
    argv = [*alone, sys.executable, "-P", "-m", "hotdesk.desk.image.payload", str(store), name]
    env = {key: value for key in ("PATH", "PYTHONPATH") if (value := os.environ.get(key))}
    try:
        done = subprocess.run(
            argv,
            check=False,
            env=env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=target,
            stderr=subprocess.PIPE,
            timeout=EXPORT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as e:
        raise ImageError(f"Image {name!r} could not be exported within {EXPORT_TIMEOUT_S:.0f} s.") from e
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if done.returncode != 0:
        raise ImageError(
            f"Image {name!r} could not be exported: {make_printable(last[-500:]) or 'the export process was killed'}"
        )
    counted = json.loads(last)
    return ArchiveBudget(LIMITS, counted["entries"], counted["size"])


def main() -> None:
    """Write one image's payload to descriptor 1, and its number of entries and bytes to descriptor 2."""
    store, name = Path(sys.argv[1]), sys.argv[2]
    try:
        image = find(store, name)
        with ExitStack() as stack:
            layers = [hold(layer) for layer in image.layers]
            for fd in layers:
                stack.callback(os.close, fd)
            with open(1, "wb", closefd=False) as target:
                budget = write(_show_merged(store, image, layers), target)
    except (HotdeskError, OSError) as e:
        sys.exit(str(e))
    print(json.dumps({"entries": budget.entries, "size": budget.size}), file=sys.stderr)


def hold(layer: Path) -> int:
    fd = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _show_merged(store: Path, image: Image, layers: list[int]) -> Path:
    if len(layers) == 1:
        return image.layers[0]
    os.chdir("/proc/self/fd")  # short names: mount options are one page, too little for the paths of many layers
    lowers = ":".join(map(str, layers))
    syscalls.mount("overlay", str(store / "layers"), "overlay", syscalls.MS_RDONLY, f"lowerdir={lowers}")
    return store / "layers"


def write(tree: Path, target: IO[bytes], limits: ArchiveLimits = LIMITS) -> ArchiveBudget:
    budget = ArchiveBudget(limits)
    links: dict[tuple[int, int], str] = {}
    with (
        gzip.GzipFile("", "wb", LEVEL, target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar,
    ):
        for path, folders, files, fd in os.fwalk(tree, follow_symlinks=False):
            folders.sort()
            above = os.path.relpath(path, tree)
            for name in sorted((*folders, *files)):
                _add(tar, fd, name, os.path.normpath(f"{above}/{name}"), links, budget)
    return budget


def _add(
    tar: tarfile.TarFile, fd: int, name: str, path: str, links: dict[tuple[int, int], str], budget: ArchiveBudget
) -> None:
    info = os.lstat(name, dir_fd=fd)
    entry = _describe(info, path)
    if entry is None:
        return
    if entry.issym():
        entry.linkname = os.readlink(name, dir_fd=fd)
    first = links.setdefault((info.st_dev, info.st_ino), path) if entry.isreg() and info.st_nlink > 1 else path
    if first != path:
        entry.type, entry.linkname, entry.size = tarfile.LNKTYPE, first, 0
    check_path(path, budget.limits)
    budget.spend(entry.size)
    if not entry.isreg():
        tar.addfile(entry)
        return
    with open(os.open(name, _FLAGS, dir_fd=fd), "rb") as source:
        if not os.path.samestat(os.fstat(source.fileno()), info):
            raise ImageError(f"{make_printable(path)} changed while it was read; export again")
        tar.addfile(entry, source)


def _describe(info: os.stat_result, path: str) -> tarfile.TarInfo | None:
    """Return the tar entry of a regular file, directory or link, or `None` for a kind that images may not contain."""
    kinds = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE, stat.S_IFLNK: tarfile.SYMTYPE}
    kind = kinds.get(stat.S_IFMT(info.st_mode))
    if kind is None:
        return None
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = kind, stat.S_IMODE(info.st_mode) & 0o1777
    entry.uid, entry.gid, entry.mtime = info.st_uid, info.st_gid, max(0, int(info.st_mtime))
    entry.size = info.st_size if kind == tarfile.REGTYPE else 0
    return entry


if __name__ == "__main__":
    main()
