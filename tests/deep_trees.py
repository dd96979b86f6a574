"""Trees deeper than recursive programs can handle, and their removal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LEVELS = 1200
"""More levels than Python's stack has frames."""


def deepen(folder: Path, levels: int = LEVELS) -> None:
    """Create nested folders."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


@contextmanager
def removing(folder: Path) -> Iterator[Path]:
    """Remove a folder at the end by a program that handles any depth, as pytest's own clean-up does not."""
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
