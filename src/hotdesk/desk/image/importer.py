"""Import an image: a tar of a root file system, an OCI layout, or an archive of `docker save`."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from io import BufferedRandom
from pathlib import Path

from hotdesk.desk.image.archive import Bounded, Folder
from hotdesk.desk.image.build import is_passed_on, require_root
from hotdesk.desk.image.image import Image, as_name
from hotdesk.desk.image.manifests import INDEX, JSON_LIMIT
from hotdesk.desk.image.normalise import PYTHONS
from hotdesk.desk.image.store import Progress, make_private, measure_disk_usage, publish, writing
from hotdesk.desk.image.untar import ArchiveLimits
from hotdesk.errors import BriefError, HostError, ImageError, make_printable

RIGHTS = "-all,+chown,+dac_override,+fowner"
"""Capabilities of the unpacking program: change owners, and write everywhere."""
KINDS = {"tar": "a root file system", "oci": "an OCI layout", "docker": "a docker archive"}
COPY = 1 << 20
DEFAULTS = ArchiveLimits()


def import_image(
    store: Path, path: Path, name: str, progress: Progress, limits: ArchiveLimits = DEFAULTS, timeout: float = 3600.0
) -> Image:
    as_name(name)
    require_root()
    began = time.monotonic()
    with ExitStack() as stack:
        archive = open_archive(path)
        stack.callback(os.close, archive)
        make_private(store)
        spool = stack.enter_context(tempfile.TemporaryFile(dir=store))
        digest = copy_archive(archive, spool, limits)
        work, lock = stack.enter_context(writing(store, progress))
        progress(f"{name}: unpacking {make_printable(path.name)}")
        tree = work / "tree"
        tree.mkdir(0o755)
        layout = archive if stat.S_ISDIR(os.fstat(archive).st_mode) else None
        kind, python = unwrap(spool.fileno(), tree, limits, timeout, lock, layout)
        layer = store / "layers" / digest
        image = Image(
            name=name,
            digest=digest,
            layers=(layer,),
            python=python,
            arch=os.uname().machine,
            built=time.time(),
            size=measure_disk_usage(tree),
            source=f"{KINDS[kind]}, {make_printable(path.name)}",
        )
        publish(store, image, layer if layer.exists() else tree)
    progress(f"{name}: imported in {time.monotonic() - began:.0f} s, {image.size / 1e6:.0f} MB")
    return image


def import_payload(
    store: Path, payload: int, image: Image, progress: Progress, limits: ArchiveLimits, timeout: float = 3600.0
) -> Image:
    """Make an image from the verified tar of a root file system, open as a descriptor of a file no one else can write.

    `image` has every field but `python` and `size`, which are determined here.
    """
    require_root()
    with writing(store, progress) as (work, lock):
        tree = work / "tree"
        tree.mkdir(0o755)
        kind, python = unwrap(payload, tree, limits, timeout, lock)
        if kind != "tar":
            raise ImageError(f"The payload of a signed image must be a root file system, not {KINDS[kind]}.")
        (layer,) = image.layers
        image = replace(image, python=python, size=measure_disk_usage(tree))
        return publish(store, image, layer if layer.exists() else tree)


def open_archive(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as e:
        raise BriefError(f"{make_printable(str(path))!r} cannot be read: {e.strerror}") from e
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and (path / INDEX).is_file()):
        return fd
    os.close(fd)
    remedy = "pass a tar file, or a directory with the index.json of an OCI layout"
    raise BriefError(f"{make_printable(str(path))!r} is not an archive; {remedy}")


def copy_archive(archive: int, spool: BufferedRandom, limits: ArchiveLimits) -> str:
    """Copy an archive, or a layout's index, which names everything else by sha256; return the sha256 of the copy.

    Only the copy is unpacked: whoever may write the original could replace it after its digest was computed.
    """
    try:
        if stat.S_ISDIR(os.fstat(archive).st_mode):
            with closing(Folder(archive)) as layout, layout.open(INDEX) as file:
                spool.write(file.read(JSON_LIMIT + 1))
        else:
            with open(os.dup(archive), "rb") as file, Bounded(file, limits.stream) as bounded:
                shutil.copyfileobj(bounded, spool, COPY)
        spool.seek(0)
        return hashlib.file_digest(spool, "sha256").hexdigest()
    except OSError as e:
        raise HostError(f"the archive cannot be copied into the image store: {e.strerror}") from e


def unwrap(
    archive: int, tree: Path, limits: ArchiveLimits, timeout: float, lock: int, layout: int | None = None
) -> tuple[str, str]:
    """Run the unpacking program; return the kind of the archive, and the path of its Python.

    If `layout` is the descriptor of an OCI layout, `archive` is a copy of its index.
    """
    mortal = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net"]
    weak = ["setpriv", "--no-new-privs", "--bounding-set", RIGHTS]
    program = [sys.executable, "-P", "-m", "hotdesk.desk.image.unwrap"]
    task = [str(archive), str(tree), os.uname().machine, str(limits.entries), str(limits.size)]
    passed = (archive, lock) if layout is None else (archive, lock, layout)
    env = {key: value for key, value in os.environ.items() if is_passed_on(key)}
    try:
        done = subprocess.run(
            [*mortal, *weak, *program, *task, *map(str, passed[2:])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=env,
            cwd="/",
            pass_fds=passed,
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        raise ImageError(
            f"the archive could not be unpacked within {timeout:.0f} s; the machine may be overloaded, try again"
        ) from e
    kind, _, python = done.stdout.strip().partition(" ")
    if done.returncode != 0 or kind not in KINDS or python not in PYTHONS:
        lines = [make_printable(line) for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1][:500] if lines else f"the unpacking process failed with exit code {done.returncode}"
        raise ImageError(f"the archive cannot be imported: {why}")
    return kind, python
