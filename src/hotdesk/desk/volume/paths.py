"""Mount points and sizes that volumes may have. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations

from hotdesk.desk.records import ID_SHAPE
from hotdesk.errors import BriefError

MIN_SIZE, MAX_SIZE = 16 << 20, 1 << 44
"""Minimum and maximum bytes of a volume."""
MAX_VOLUMES = 16
"""Maximum volumes mounted in one desk."""
_MAX_PATH = 255
_SHAPE = re.compile(r"(?:/[^/\0-\x1f\x7f:]{1,128}){1,16}")
SYSTEM = frozenset("bin boot dev etc lib lib32 lib64 libx32 proc run sbin sys usr".split())
"""Top-level directories that belong to the image, the kernel or the keeper; no volume is mounted at or below them."""


def check_mounts(volumes: Mapping[str, str]) -> None:
    """Refuse mount points that a desk cannot have. `volumes` has the ids of volumes by mount point."""
    if len(volumes) > MAX_VOLUMES:
        raise BriefError(f"a desk mounts at most {MAX_VOLUMES} volumes, not {len(volumes)}")
    for path, volume in volumes.items():
        _check_path(path)
        if not ID_SHAPE.fullmatch(volume):
            raise BriefError(f"{volume[:80]!r} is not the id of a volume")
    for one, other in permutations(volumes, 2):
        if other.startswith(f"{one}/"):
            raise BriefError(
                f"the mount point {other} is inside the mount point {one}; mount these volumes next to each other"
            )


def _check_path(path: str) -> None:
    if len(path) > _MAX_PATH or not _SHAPE.fullmatch(path) or not path.isprintable():
        raise BriefError(
            f"a volume cannot be mounted at {path[:80]!r}: a mount point is an absolute path below /, without `:`, of "
            f"at most {_MAX_PATH} characters"
        )
    parts = path[1:].split("/")
    if "." in parts or ".." in parts:
        raise BriefError(f"a volume cannot be mounted at {path!r}: a mount point has no `.` or `..`")
    if parts[0] in SYSTEM:
        raise BriefError(
            f"a volume cannot be mounted at {path!r}: /{parts[0]} belongs to the system; use a path such as /data or "
            "/home/user/data"
        )
