"""The guest's code as a desk gets it: bytecode that the image's own Python compiled, else its source."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "hotdesk_guest"
FILES = ("__init__", "wire", "line", "files", "process", "programs", "agent", "watch", "acts", "sudo", "start")
COMPILE = """
import __future__, marshal, sys
from importlib.util import MAGIC_NUMBER
ANNOTATIONS = __future__.annotations.compiler_flag  # the import itself would cost a desk a file
names = sys.argv[1:]
for name in names:
    with open(f'/run/hotdesk/lib/hotdesk_guest/{name}.py', 'rb') as file:
        source = file.read().replace(b'from __future__ import annotations', b'')
    code = compile(source, f'hotdesk_guest/{name}.py', 'exec', ANNOTATIONS, dont_inherit=True, optimize=2)
    with open(f'{name}.pyc', 'wb') as out:
        out.write(MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
"""
"""Run inside a desk: leaves one .pyc a module in the working folder."""


def sources() -> dict[str, bytes]:
    """Read the guest's modules as they are installed here."""
    return {f"{name}.py": (SOURCE / f"{name}.py").read_bytes() for name in FILES}


def version(source: dict[str, bytes]) -> str:
    """Tell one state of the guest's source from another; a check against staleness, not against malice."""
    check = 0
    for name in sorted(source):
        check = zlib.crc32(source[name], check)
    return f"{check:08x}-{sum(map(len, source.values()))}"


def folder(store: Path, image_digest: str, source: dict[str, bytes]) -> Path:
    """Give the place for one image's bytecode of this source."""
    return store / "guest" / image_digest / version(source)


def load(store: Path, image_digest: str, source: dict[str, bytes]) -> dict[str, bytes]:
    """Give the files to lay into a desk."""
    compiled = folder(store, image_digest, source)
    try:
        return {f"{name}.pyc": (compiled / f"{name}.pyc").read_bytes() for name in FILES}
    except FileNotFoundError:
        return source


def keep(store: Path, image_digest: str, source: dict[str, bytes], compiled: dict[str, bytes]) -> None:
    """Store one image's bytecode; only desks of that image ever run it."""
    place = folder(store, image_digest, source)
    fresh = place.with_name(f".{os.getpid()}")
    fresh.mkdir(mode=0o700, parents=True)
    for name, data in compiled.items():
        (fresh / name).write_bytes(data)
    try:
        fresh.rename(place)
    except OSError:
        shutil.rmtree(fresh)  # another process was first
