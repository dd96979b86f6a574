"""Unpack an image archive: the program that `importer.py` starts, with few capabilities and limited memory and time."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from contextlib import closing
from io import BufferedReader
from lzma import LZMAError
from typing import Literal

from hotdesk.desk.image.archive import (
    CopiedFolder,
    Kind,
    Wrapped,
    decompress_stream,
    detect_kind,
    is_compressed,
    reopen_file,
    verify,
)
from hotdesk.desk.image.manifests import read_docker_layers, read_oci_layers
from hotdesk.desk.image.normalise import find_python, furnish
from hotdesk.desk.image.untar import ArchiveBudget, ArchiveLimits, apply_whiteouts, unpack
from hotdesk.errors import ImageError, make_printable
from hotdesk.linux.openat2 import RootDirectory

MEMORY = 1 << 30
BROKEN = (ImageError, tarfile.TarError, OSError, EOFError, zlib.error, LZMAError, ValueError, OverflowError)
"""Errors raised by the readers for a broken or hostile archive."""
_Layer = tuple[str, str]
"""A layer's name in the archive, and its digest."""


def main() -> int:
    """Unpack an archive open as a descriptor into a directory; print its kind and its Python's path.

    With a last argument, which is the descriptor of an OCI layout, the archive is a copy of its index.
    """
    _, archive, tree, machine, entries, size, *layout = sys.argv
    limits, work = ArchiveLimits(int(entries), int(size)), os.path.dirname(tree)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with RootDirectory(tree) as root:
            if layout:
                kind: Kind = _unwrap_layout(int(layout[0]), int(archive), root, machine, limits, work)
            else:
                kind = unwrap(int(archive), root, machine, limits, work)
            python = find_python(root, "the image")
            furnish(root)
    except BROKEN as e:
        print(make_printable(str(e) or type(e).__name__)[:500], file=sys.stderr)
        return 1
    except (MemoryError, RecursionError):
        print(
            f"unpacking the archive needs more than {MEMORY >> 20} MiB of memory, which is the limit", file=sys.stderr
        )
        return 1
    print(kind, python)
    return 0


def _unwrap_layout(
    layout: int, index: int, root: RootDirectory, machine: str, limits: ArchiveLimits, work: str
) -> Literal["oci"]:
    with closing(CopiedFolder(layout, index, work, limits)) as parts:
        squash(root, parts.open, read_oci_layers(parts, machine), limits)
    return "oci"


def unwrap(archive: int, root: RootDirectory, machine: str, limits: ArchiveLimits, work: str) -> Kind:
    with reopen_file(archive) as file, decompress_stream(file, limits) as stream:
        kind = detect_kind(stream)
    if kind == "tar":
        with reopen_file(archive) as file, decompress_stream(file, limits) as stream:
            unpack(root, stream, ArchiveBudget(limits), layer=False)
        return kind
    with tempfile.TemporaryFile(dir=work) as spool:
        layout = Wrapped(_spool_archive(archive, spool.fileno(), limits))
        layers = read_oci_layers(layout, machine) if kind == "oci" else read_docker_layers(layout, machine)
        squash(root, layout.open, layers, limits, of_content=kind == "docker")
    return kind


def _spool_archive(archive: int, spool: int, limits: ArchiveLimits) -> int:
    """Return a descriptor of the uncompressed archive: itself, or the spool into which it was decompressed."""
    with reopen_file(archive) as file:
        if not is_compressed(file):
            return archive
        with decompress_stream(file, limits) as stream, os.fdopen(os.dup(spool), "wb") as target:
            shutil.copyfileobj(stream, target, 1 << 20)
    return spool


def squash(
    root: RootDirectory,
    open_part: Callable[[str], BufferedReader],
    layers: list[_Layer],
    limits: ArchiveLimits,
    of_content: bool = False,
) -> None:
    """Unpack layers over each other, verifying each first. With `of_content`, digests are of the uncompressed data."""
    budget = ArchiveBudget(limits)
    for number, (name, digest) in enumerate(layers):
        with open_part(name) as part:
            verify(decompress_stream(part, limits) if of_content else part, digest, name)
        if number:
            with open_part(name) as part, decompress_stream(part, limits) as stream:
                apply_whiteouts(root, stream, limits)
        with open_part(name) as part, decompress_stream(part, limits) as stream:
            unpack(root, stream, budget, layer=True)


if __name__ == "__main__":
    sys.exit(main())
