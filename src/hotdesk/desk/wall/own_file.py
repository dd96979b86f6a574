"""Small files that one keeper leaves for later ones, and that are trusted only if a keeper wrote them.

They are in a tenant's folder, in which a server may write as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from hotdesk.linux import uids
from hotdesk.linux.filesystem import hold_folder


def read_own(path: Path, most: int) -> bytes | None:
    """Read a file that a keeper wrote; return `None` if it is missing or another user's."""
    try:
        with path.open("rb") as file:
            return file.read(most) if os.fstat(file.fileno()).st_uid == uids.KEEPER else None
    except OSError:
        return None


def write_own(path: Path, data: bytes) -> None:
    """Write a file and give it to the keeper's user before it has a name by which others could open it."""
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with hold_folder(path.parent) as place:
        fd = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=place)
        with open(fd, "wb") as file:
            os.fchown(fd, uids.KEEPER, uids.KEEPER)
            file.write(data)
            file.flush()
            os.link(f"/proc/self/fd/{fd}", fresh.name, dst_dir_fd=place)
    fresh.replace(path)
