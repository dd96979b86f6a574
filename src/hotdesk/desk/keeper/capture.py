"""Save a desk's files as an image: a copy of its writable layer on top of the layers of its image.

Runs in a child of the keeper. Standard library only, and imported only there, as most keepers never save.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from hotdesk.config import Config
from hotdesk.desk import door_files
from hotdesk.desk.image.copy import TreeLimits, copy
from hotdesk.desk.image.image import Image, as_name, find
from hotdesk.desk.image.normalise import FILES
from hotdesk.desk.image.store import measure_disk_usage, publish, writing
from hotdesk.desk.room import layout
from hotdesk.errors import ImageError, make_printable
from hotdesk.linux.openat2 import open_strictly

DEFAULTS = TreeLimits()
_MAX_LAYERS = 64
"""Maximum layers of an image; each adds to the mounts of every desk."""
_SEEDED = frozenset(
    (
        *FILES,
        *(
            path.lstrip("/").encode()
            for path in (
                door_files.CERTIFICATE,
                door_files.JAVA_STORE,
                door_files.NODE_PRELOAD,
                door_files.APT_SETTINGS,
                *(f"{folder}/{door_files.BROWSER_POLICY}" for folder in door_files.BROWSERS),
            )
        ),
    )
)
"""Files that every desk gets its own version of; they are left out of an image."""
SUDO = layout.SUDO.encode()
BUNDLE = door_files.BUNDLE.lstrip("/").encode()
_HASHED = re.compile(rb"etc/ssl/certs/[0-9a-f]{8}\.[0-9]")
CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]{1,16384})-----END CERTIFICATE-----")
AUTHORITY = b"hotdesk door of "
"""The start of the common name of every desk's certificate authority."""
_MAX_BUNDLE_BYTES = 4 << 20
"""Maximum bytes read of a small file, such as a bundle of certificates."""


def save(settings: Config, layer_fd: int, source: Image | str, name: str, desk_id: str) -> None:
    """Make an image from a desk's upper directory, to which no process writes, on top of the desk's image `source`.

    Pass `source` as an `Image` if it is known: its name may belong to another image by now.
    """
    as_name(name)
    store = settings.images
    with writing(store, lambda line: None) as (work, _):
        below = find(store, source) if isinstance(source, str) else source
        check(below)
        tree, links = work / "tree", work / "links"
        tree.mkdir(0o755)
        links.mkdir(0o700)
        limits = replace(DEFAULTS, size=min(DEFAULTS.size, _measure_free_space(settings)))
        digest = copy(
            layer_fd, tree, links, partial(_is_seeded, below.python), partial(_is_visible, below.layers), limits
        )
        digest = choose_name(digest, below)
        layer = store / "layers" / digest
        image = Image(
            name=name,
            digest=_hash_stack(digest, below),
            layers=below.layers if layer == below.layers[0] else (layer, *below.layers),
            python=below.python,
            arch=below.arch,
            built=time.time(),
            size=measure_disk_usage(tree) + below.size,
            source=make_printable(f"desk {desk_id}"),
        )
        publish(store, image, layer if layer.exists() else tree)


def choose_name(digest: str, below: Image) -> str:
    """Return a layer name that can be added to an image: overlay refuses a directory that appears twice.

    A layer equal to the topmost one keeps its name, and changes nothing. One equal to a deeper layer gets another name.
    """
    names = [layer.name for layer in below.layers]
    while digest in names[1:]:
        digest = hashlib.sha256(f"{digest} again".encode()).hexdigest()
    return digest


def check(below: Image) -> None:
    if len(below.layers) >= _MAX_LAYERS:
        remedy = "open a desk from an image with fewer layers and save that one"
        raise ImageError(
            f"image {below.name!r} has {len(below.layers)} layers, and the limit is {_MAX_LAYERS}; {remedy}"
        )
    for layer in below.layers:
        if not layer.is_dir():
            raise ImageError(
                f"image {below.name!r} lacks its layer {layer}; build it again with "
                "`hotdesk image build`, or import it again"
            )


def _measure_free_space(settings: Config) -> int:
    """Return the bytes an image may take. Blocks that a desk shares with other files count in full in a copy."""
    free = os.statvfs(settings.images)
    return max(0, free.f_bavail * free.f_frsize - settings.disk_floor)


def _hash_stack(digest: str, below: Image) -> str:
    """Return a digest of a layer with everything below it: bytecode depends on the Python of the image below."""
    parts = (digest, *(layer.name for layer in below.layers), below.python, below.arch)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_seeded(python: str, folder: int, path: bytes) -> bool:
    if path in _SEEDED:
        return True
    if path == SUDO:
        return read_small_file(folder, path) == layout.format_sudo_program(python).encode()
    if path == BUNDLE or _HASHED.fullmatch(path):
        return _has_own_authority(read_small_file(folder, path))
    return False


def read_small_file(folder: int, path: bytes) -> bytes:
    """Read a small regular file of an open directory; return nothing for any other kind."""
    with suppress(OSError):
        fd = open_strictly(folder, path.rpartition(b"/")[2], os.O_RDONLY)
        try:
            return os.read(fd, _MAX_BUNDLE_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)
    return b""


def _has_own_authority(text: bytes) -> bool:
    for found in CERTIFICATE.finditer(text):
        with suppress(ValueError):
            if AUTHORITY in base64.b64decode(found.group(1)):
                return True
    return False


def _is_visible(layers: Sequence[Path], folder: int, path: bytes) -> bool:
    for layer in layers:
        root = os.open(layer, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = open_strictly(root, path, os.O_PATH)
        except FileNotFoundError:
            continue
        except OSError as e:
            if e.errno in (errno.ENOTDIR, errno.ELOOP):
                return False
            raise
        finally:
            os.close(root)
        try:
            return not stat.S_ISCHR(os.fstat(fd).st_mode)
        finally:
            os.close(fd)
    return False
