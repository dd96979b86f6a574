"""Import an image: a tar of a root file system, an OCI layout, or an archive of `docker save`."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from hotdesk.desk.image.build import is_passed_on, require_root
from hotdesk.desk.image.image import Image, as_name
from hotdesk.desk.image.normalise import PYTHONS
from hotdesk.desk.image.store import Progress, measure_disk_usage, publish, writing
from hotdesk.desk.image.untar import ArchiveLimits
from hotdesk.errors import BriefError, ImageError, make_printable

RIGHTS = "-all,+chown,+dac_override,+fowner"
"""Capabilities of the unpacking program: change owners, and write everywhere."""
KINDS = {"tar": "a root file system", "oci": "an OCI layout", "docker": "a docker archive"}
_INDEX_LIMIT = 4 << 20
DEFAULTS = ArchiveLimits()


def import_image(
    store: Path, path: Path, name: str, progress: Progress, limits: ArchiveLimits = DEFAULTS, timeout: float = 3600.0
) -> Image:
    as_name(name)
    require_root()
    began = time.monotonic()
    archive = open_archive(path)
    try:
        digest = _compute_archive_digest(archive, path)
        with writing(store, progress) as (work, lock):
            progress(f"{name}: unpacking {make_printable(path.name)}")
            tree = work / "tree"
            tree.mkdir(0o755)
            kind, python = unwrap(archive, tree, limits, timeout, lock)
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
    finally:
        os.close(archive)
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
    if stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and (path / "index.json").is_file()):
        return fd
    os.close(fd)
    remedy = "pass a tar file, or a directory with the index.json of an OCI layout"
    raise BriefError(f"{make_printable(str(path))!r} is not an archive; {remedy}")


def _compute_archive_digest(archive: int, path: Path) -> str:
    """Return the sha256 of an archive's bytes, or of a layout's index, which names everything else by sha256."""
    if stat.S_ISDIR(os.fstat(archive).st_mode):
        index = os.open("index.json", os.O_RDONLY | os.O_CLOEXEC, dir_fd=archive)
        with os.fdopen(index, "rb") as file:
            return hashlib.sha256(file.read(_INDEX_LIMIT)).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unwrap(archive: int, tree: Path, limits: ArchiveLimits, timeout: float, lock: int) -> tuple[str, str]:
    """Run the unpacking program; return the kind of the archive, and the path of its Python."""
    mortal = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net"]
    weak = ["setpriv", "--no-new-privs", "--bounding-set", RIGHTS]
    program = [sys.executable, "-P", "-m", "hotdesk.desk.image.unwrap"]
    task = [str(archive), str(tree), os.uname().machine, str(limits.entries), str(limits.size)]
    env = {key: value for key, value in os.environ.items() if is_passed_on(key)}
    try:
        done = subprocess.run(
            [*mortal, *weak, *program, *task],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=env,
            cwd="/",
            pass_fds=(archive, lock),
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
