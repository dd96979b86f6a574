"""The description of the work: a small text among a brief's inputs that the goal names, shown to planner and worker."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hotdesk.brief.brief import Brief
from hotdesk.errors import make_printable

NAME = "TASK.md"
"""What the file is called. Only this name: a goal may name other inputs because they are to be read, not obeyed."""
MAX_BYTES = 8_000
"""Bytes of a description that is shown; a longer one is read by the worker, as any input is."""


def read_description(job: Brief) -> str:
    """Return the text of the description that a goal names; empty: there is none, or it is not small plain text."""
    if NAME not in job.inputs or NAME not in job.goal:
        return ""
    data = _read_small_file(job.folder / NAME)
    try:
        text = data.decode() if len(data) <= MAX_BYTES else ""
    except UnicodeDecodeError:
        return ""
    return "\n".join(make_printable(line) for line in text.replace("\t", "    ").splitlines()).strip()


def _read_small_file(path: Path) -> bytes:
    """Return a regular file's bytes, one more than a description may have; no link is followed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(MAX_BYTES + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
