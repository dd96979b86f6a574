"""Resource limits of this process, raised to the maximum this machine allows."""

from __future__ import annotations

import resource
from pathlib import Path

CORE_LIMIT = 1
"""Bytes of a core file. A limit of 0 does not stop a piped core pattern; 1 does."""
FILE_TABLE = (1 << 63) - 1


def set_core_limit() -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (CORE_LIMIT, CORE_LIMIT))
    except ValueError:
        pass  # the limit was lower, and root in this container may not raise it


def raise_open_files() -> None:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))


def raise_file_table() -> None:
    """Lift the limit on open files of the whole machine, as systemd does: desks must not fill the host's table."""
    table = Path("/proc/sys/fs/file-max")
    try:
        if int(table.read_text()) < FILE_TABLE:
            table.write_text(str(FILE_TABLE))
    except OSError:
        pass  # root in this container may not; `hotdesk doctor` reports it


def limit_added_memory(size: int) -> None:
    """Limit what this process may map in addition to what it has, which a forked process has from its parent."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = mapped + size if hard == resource.RLIM_INFINITY else min(hard, mapped + size)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
