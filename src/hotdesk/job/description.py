"""The task description: a small text file among the inputs that the goal names, shown to the planner and the worker."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hotdesk.brief.brief import Brief
from hotdesk.errors import make_printable

NAME = "TASK.md"
"""Name of the file. Only this name: a goal may name other inputs as data, and those must not become instructions."""
MAX_BYTES = 8_000
"""Maximum bytes of a description that is shown. The worker reads a longer one itself, like any input."""


def read_description(job: Brief) -> str:
    """Return the text of the description, or `""` if the goal names none or it is not a small plain text file."""
    if NAME not in job.inputs or NAME not in job.goal:
        return ""
    data = _read_small_file(job.folder / NAME)
    try:
        text = data.decode() if len(data) <= MAX_BYTES else ""
    except UnicodeDecodeError:
        return ""
    return "\n".join(make_printable(line) for line in text.replace("\t", "    ").splitlines()).strip()


def _read_small_file(path: Path) -> bytes:
    """Return at most `MAX_BYTES + 1` bytes of a regular file, or nothing if it is none. Links are not followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
