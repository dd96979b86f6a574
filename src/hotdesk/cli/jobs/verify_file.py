"""Read the files of `hotdesk verify`: they are hashed, never opened in a program."""

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
    """The fingerprint of the key that signed."""
    trusted: str = ""
    """Where the trust in this key comes from."""
    claim: Fields | None = None
    """The certificate's content, if all of it holds: content by strangers is not shown."""


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
    """Return a file's size and SHA-256; nothing else of it is looked at."""
    digest, size = hashlib.sha256(), 0
    with open_regular_file(path) as file:
        while data := file.read(CHUNK):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()
