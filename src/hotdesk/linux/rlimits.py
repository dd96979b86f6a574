"""Resource limits of this process, raised to what this machine allows."""

from __future__ import annotations

import resource
from pathlib import Path

CORE_LIMIT = 1
"""Bytes of a core file. 0 does not stop a piped core pattern; 1 does."""
FILE_TABLE = (1 << 63) - 1


def set_core_limit() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (CORE_LIMIT, CORE_LIMIT))
    except ValueError:
        pass  # it was lower, and this root may not raise it


def raise_open_files() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def raise_file_table() -> None:
    """Leave the number of open files to memory limits, as systemd does: a full table would be the host's, too."""
    table = Path("/proc/sys/fs/file-max")
    try:
        if int(table.read_text()) < FILE_TABLE:
            table.write_text(str(FILE_TABLE))
    except OSError:
        pass  # this root may not; doctor's to tell
