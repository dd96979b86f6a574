"""A cache of compiled seccomp filters: compiling takes crun 8 ms of every start.

crun leaves the filter it compiled beside its state, and accepts a compiled one by annotation. That a filter is active
is proven for every desk (`prove.py`); that it is the right one is shown by the attacks in `tests/security`.
"""

from __future__ import annotations

import base64
import os
import shutil
import zlib
from contextlib import suppress
from pathlib import Path

from hotdesk.desk.room.layout import PATH
from hotdesk.desk.wall.container import seccomp
from hotdesk.desk.wall.own_file import write_own
from hotdesk.linux import uids

ANNOTATION = "run.oci.seccomp_bpf_data"
_INSTRUCTION = 8
_MAX_PROGRAM_BYTES = 4096 * _INSTRUCTION
"""The kernel's limit for a filter program."""


class Filters:
    """The compiled filter of this machine's runtime for one profile, if there is one."""

    def __init__(self, folder: Path, runtime: str, requests: seccomp.IoctlRequests | None = None) -> None:
        file = folder / f"seccomp-{compute_key(runtime, requests)}.bpf"
        self.file = file if os.path.basename(runtime) == "crun" else None
        self.compiled = self.read()

    def read(self) -> str | None:
        if self.file is None or not self.file.exists():
            return None
        with self.file.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != uids.KEEPER:
                return None  # not written by a keeper: tenants' folders are writable by servers, too
            return base64.b64encode(file.read(_MAX_PROGRAM_BYTES)).decode()

    def keep(self, compiled: Path) -> None:
        if self.file is None or self.compiled is not None or not compiled.exists():
            return
        data = compiled.read_bytes()
        if not data or len(data) % _INSTRUCTION or len(data) > _MAX_PROGRAM_BYTES:
            return
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):  # not stored where the file system does not support unnamed files
            write_own(self.file, data)
        self.compiled = self.read()


def compute_key(runtime: str, requests: seccomp.IoctlRequests | None) -> str:
    """Return a key that depends on the profile, the module that builds it and the program that compiles it."""
    found = shutil.which(runtime, path=PATH)
    program = os.stat(found) if found else None
    profile = Path(seccomp.__file__).read_bytes()
    marks = f"{os.uname().machine} {program and (program.st_size, program.st_mtime_ns)} {requests}"
    return f"{zlib.crc32(marks.encode(), zlib.crc32(profile)):08x}"
