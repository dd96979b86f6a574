"""The guest's code as a desk gets it: bytecode compiled by the image's own Python, or source if there is none yet."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path

from hotdesk.ipc.child import SOURCE

GUEST = SOURCE / "hotdesk_guest"
_TOGETHER = ("wire", "process", "line", "programs", "files", "agent")
"""Modules every guest needs, in order of dependency, sealed in one file because finding files takes time."""
APART = (
    "__init__",
    "wire",
    "watch",
    "acts",
    "ports",
    "parking",
    "sudo",
    "canaries",
    "mux",
    "freezer",
    "kernel",
    "vm",
    "wrong_calls",
    "start",
)
"""Modules only some guests need, those `sudo` needs, and the one that starts the rest."""
FILES = (*APART, *_TOGETHER[1:])
SEALED = ("modules", *(f"{name}.pyc" for name in APART))
COMPILE = f"""
import __future__, marshal
from importlib.util import MAGIC_NUMBER
ANNOTATIONS = __future__.annotations.compiler_flag  # the import itself would cost a desk a file
def compiled(name):
    with open(f'/run/hotdesk/lib/hotdesk_guest/{{name}}.py', 'rb') as file:
        source = file.read().replace(b'from __future__ import annotations', b'')
    return compile(source, f'hotdesk_guest/{{name}}.py', 'exec', ANNOTATIONS, dont_inherit=True, optimize=2)
for name in {APART}:
    with open(f'{{name}}.pyc', 'wb') as out:
        out.write(MAGIC_NUMBER + bytes(12) + marshal.dumps(compiled(name)))
with open('modules', 'wb') as out:
    out.write(marshal.dumps([(name, compiled(name)) for name in {_TOGETHER}]))
"""
"""A program to run inside a desk: it writes the `SEALED` files into the working folder."""


def read_sources() -> dict[str, bytes]:
    return {f"{name}.py": (GUEST / f"{name}.py").read_bytes() for name in FILES}


def _compute_version(source: dict[str, bytes]) -> str:
    """Return a version of the guest's source. It detects outdated bytecode, and is no protection against tampering."""
    check = 0
    for name in sorted(source):
        check = zlib.crc32(source[name], check)
    return f"{check:08x}-{sum(map(len, source.values()))}"


def get_folder(store: Path, image_digest: str, source: dict[str, bytes]) -> Path:
    return store / "guest" / image_digest / _compute_version(source)


def load(store: Path, image_digest: str, source: dict[str, bytes]) -> dict[str, bytes]:
    compiled = get_folder(store, image_digest, source)
    try:
        found = {name: (compiled / name).read_bytes() for name in SEALED}
    except FileNotFoundError:
        return source
    return found if all(found.values()) else source  # a power cut left empty files of earlier versions


def keep(store: Path, image_digest: str, source: dict[str, bytes], compiled: dict[str, bytes]) -> None:
    """Store the bytecode for one image; only desks of that image ever run it."""
    place = get_folder(store, image_digest, source)
    fresh = place.with_name(f".{os.urandom(8).hex()}")
    fresh.mkdir(mode=0o700, parents=True)
    try:
        for name, data in compiled.items():
            with (fresh / name).open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
    except OSError:
        shutil.rmtree(fresh)
        raise
    try:
        if place.exists() and load(store, image_digest, source) is source:
            broken = place.with_name(f".{os.urandom(8).hex()}")
            place.rename(broken)
            shutil.rmtree(broken)
        fresh.rename(place)
    except OSError:
        shutil.rmtree(fresh)  # another process was first
