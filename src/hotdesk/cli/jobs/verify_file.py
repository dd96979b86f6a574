"""Reads the files of `hotdesk verify`: they are hashed, never opened in a program."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from hotdesk.dataclass import dataclass
from hotdesk.drive.certificate import Fields
from hotdesk.errors import BriefError, make_printable

CHUNK = 1 << 20
OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a file and its certificate."""

    verdict: Literal["verified", "failed", "unknown signer"]
    why: str = ""
    signer: str = ""
    """Fingerprint of the signing key."""
    trusted: str = ""
    """Why this key is trusted."""
    claim: Fields | None = None
    """The certificate's content if it is verified, else `None`: content from unknown signers is not shown."""


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    try:
        fd = os.open(path, OPEN)
    except OSError as e:
        raise BriefError(f"{make_printable(str(path))} cannot be read: {e.strerror}") from e
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BriefError(f"{make_printable(str(path))} is not a regular file")
        yield file


def hash_file(path: Path) -> tuple[int, str]:
    """Return a file's size and SHA-256; its content is not interpreted."""
    digest, size = hashlib.sha256(), 0
    with open_regular_file(path) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()
