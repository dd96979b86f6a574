"""Deliverables that outlive their desk: bytes under their SHA-256, and names that lead there.

drive/blobs/SHA256               the bytes, never changed
drive/names/JOB/out/report.xlsx  a link to them
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hotdesk.errors import BriefError, HostError
from hotdesk.vault import private


@dataclass(frozen=True, slots=True)
class Blob:
    """What is kept of one deliverable."""

    name: str
    sha256: str
    size: int
    path: Path
    """Where it can be opened, under its own name."""


class Drive:
    """Keeps files below one folder that is nobody else's."""

    def __init__(self, folder: Path) -> None:
        self.blobs, self.names = folder / "blobs", folder / "names"
        for each in (folder, self.blobs, self.names):
            private.make_folder(each)

    def keep(self, job: str, name: str, data: bytes) -> Blob:
        """Keep bytes under a name of a job's; on disk, whole, when this returns. The same name again is replaced."""
        digest = hashlib.sha256(data).hexdigest()
        private.write(self.blobs, digest, data, 0o400)
        path = self.place(job, name)
        link(path, os.path.relpath(self.blobs / digest, path.parent))
        return Blob(name, digest, len(data), path)

    def find(self, job: str, name: str) -> bytes:
        """Give what is kept under a name; `HostError` when its bytes are no longer what they were."""
        path = self.place(job, name)
        try:
            digest, data = os.path.basename(os.readlink(path)), path.read_bytes()
        except OSError as e:
            raise BriefError(f"nothing is kept as {name!r} of job {job}: {e.strerror}") from e
        if hashlib.sha256(data).hexdigest() != digest:
            raise HostError(f"what was kept as {path} was changed since; its name says {digest[:12]}…")
        return data

    def place(self, job: str, name: str) -> Path:
        """Give where a name lies."""
        path = PurePosixPath(job) / name
        if len(PurePosixPath(job).parts) != 1 or PurePosixPath(name).is_absolute() or ".." in path.parts:
            raise BriefError(f"{name!r} of {job!r} is no name to keep a file under")
        return self.names / path


def link(path: Path, target: str) -> None:
    """Make a name lead somewhere, at once: whoever looks finds the old target or the new."""
    made = path.with_name(f".{secrets.token_hex(8)}")
    with private.translated(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.symlink(target, made)
        try:
            os.rename(made, path)
        except OSError:
            with suppress(OSError):
                os.unlink(made)
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
