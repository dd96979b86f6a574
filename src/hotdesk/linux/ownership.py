"""Who can change a folder. Imports little: the quick commands use it."""

from __future__ import annotations

import os
import stat


def is_private(folder: str) -> bool:
    """Return whether only this user can create files in a folder, or replace it or its parent."""
    for each in (folder, os.path.dirname(folder)):
        try:
            found = os.lstat(each)
        except OSError:
            return False
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            return False
    return True
