"""Names of inputs as a planner may read them: what a file is called is foreign, too."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from hotdesk.brief.brief import Brief, locate_input
from hotdesk.errors import printable

SHOWN = 5
"""Names of a folder that are told."""
MAX_NAME_CHARS = 80


def describe_inputs(job: Brief) -> tuple[str, ...]:
    """Give the names of a brief's inputs; of a folder a few, and how many there are."""
    return tuple(describe_input(job.folder / name, locate_input(name)) for name in job.inputs)


def describe_input(path: Path, name: str) -> str:
    """Give one input's name."""
    if not path.is_dir():
        return sanitize_name(name)
    files = sorted(each.name for each in islice(path.rglob("*"), 100_000) if each.is_file())
    some = ", ".join(map(sanitize_name, files[:SHOWN]))
    return f"{sanitize_name(name)}/ with {len(files)} files: {some}{', …' if len(files) > SHOWN else ''}"


def sanitize_name(name: str) -> str:
    """Give a name as one short line in which nothing hides, and no sentence fits."""
    safe = "".join(c if c.isalnum() or c in "._-/" else "_" for c in printable(name))
    return safe[:MAX_NAME_CHARS]
