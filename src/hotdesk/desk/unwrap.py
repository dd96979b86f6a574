"""Unpack an image archive: the program `unpack.py` starts, with few rights and bounded memory and time."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from contextlib import closing
from io import BufferedReader
from lzma import LZMAError

from hotdesk.desk.beneath import Root
from hotdesk.desk.blobs import Folder, Kind, Wrapped, compressed, kind_of, plain, verify, whole
from hotdesk.desk.image import printable
from hotdesk.desk.layout import docker_layers, oci_layers
from hotdesk.desk.tidy import find_python, furnish
from hotdesk.desk.untar import Budget, Limits, unpack, whiteout
from hotdesk.errors import ImageError

MEMORY = 1 << 30
BROKEN = (ImageError, tarfile.TarError, OSError, EOFError, zlib.error, LZMAError, ValueError, OverflowError)
"""What a broken or hostile archive makes our readers raise."""
Layer = tuple[str, str]
"""A layer's name in the archive, and its digest."""


def main() -> int:
    """Unpack the archive (or layout directory) that is standard input below a directory; print its Python."""
    tree, machine, entries, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with Root(tree) as root:
            kind = unwrap(root, machine, Limits(entries, size), os.path.dirname(tree))
            python = find_python(root, "the image")
            furnish(root)
    except BROKEN as e:
        print(printable(str(e) or type(e).__name__)[:500], file=sys.stderr)
        return 1
    except (MemoryError, RecursionError):
        print("the archive needs more memory to unpack than it may have", file=sys.stderr)
        return 1
    print(kind, python)
    return 0


def unwrap(root: Root, machine: str, limits: Limits, work: str) -> Kind:
    """Unpack standard input, whatever it is, and say what it was."""
    if stat.S_ISDIR(os.fstat(0).st_mode):
        with closing(Folder(0)) as parts:
            squash(root, parts.open, oci_layers(parts, machine), limits)
        return "oci"
    with whole(0) as file, plain(file, limits) as stream:
        kind = kind_of(stream)
    if kind == "tar":
        with whole(0) as file, plain(file, limits) as stream:
            unpack(root, stream, Budget(limits), layer=False)
        return kind
    with tempfile.TemporaryFile(dir=work) as spool:
        layout = Wrapped(spooled(spool.fileno(), limits))
        layers = oci_layers(layout, machine) if kind == "oci" else docker_layers(layout, machine)
        squash(root, layout.open, layers, limits, of_content=kind == "docker")
    return kind


def spooled(spool: int, limits: Limits) -> int:
    """Give a descriptor of the plain archive: standard input, or the spool it is uncompressed into."""
    with whole(0) as file:
        if not compressed(file):
            return 0
        with plain(file, limits) as stream, os.fdopen(os.dup(spool), "wb") as target:
            shutil.copyfileobj(stream, target, 1 << 20)
    return spool


def squash(
    root: Root,
    open_part: Callable[[str], BufferedReader],
    layers: list[Layer],
    limits: Limits,
    of_content: bool = False,
) -> None:
    """Unpack layers over each other, each verified first; `of_content`: digests are of what is compressed."""
    budget = Budget(limits)
    for number, (name, digest) in enumerate(layers):
        with open_part(name) as part:
            verify(plain(part, limits) if of_content else part, digest, name)
        if number:
            with open_part(name) as part, plain(part, limits) as stream:
                whiteout(root, stream, limits)
        with open_part(name) as part, plain(part, limits) as stream:
            unpack(root, stream, budget, layer=True)


if __name__ == "__main__":
    sys.exit(main())
