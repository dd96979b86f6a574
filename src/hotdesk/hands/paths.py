"""Resolves paths that a model wrote to paths in a desk."""

from __future__ import annotations

import posixpath

from hotdesk.desk.seam import Desk


def make_absolute(desk: Desk, path: str) -> str:
    """Return an absolute path: relative paths and `~` start in the home folder."""
    if path == "~" or path.startswith("~/"):
        path = path[2:]
    return posixpath.normpath(posixpath.join(desk.home, path))
