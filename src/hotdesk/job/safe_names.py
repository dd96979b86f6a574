"""Names of inputs for a planner's prompt: file names are untrusted, too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from hotdesk.brief.brief import Brief, locate_input
from hotdesk.errors import make_printable

SHOWN = 40
"""Names of a folder that are listed."""
SHOWN_FOLDERS = 20
"""Folders in it that are listed with how many files each has."""
MAX_FILES = 100_000
"""Files of a folder that are counted."""
MAX_NAME_CHARS = 80
HIDDEN = ".git"
"""The folder of a repository that says nothing about what is in it."""


def describe_inputs(job: Brief) -> tuple[str, ...]:
    """Return the names of a brief's inputs; of a folder a few, and how many there are."""
    return tuple(describe_input(job.folder / name, locate_input(name)) for name in job.inputs)


def describe_input(path: Path, name: str) -> str:
    """Return one input's name; of a folder the paths in it, those nearest to its top first, and its folders' counts."""
    if not path.is_dir():
        return sanitize_name(name)
    files = sorted(islice(_list_files(path), MAX_FILES), key=lambda each: (len(each.parts), str(each)))
    shown = [sanitize_name(str(each)) for each in files[:SHOWN]]
    shown += [f"and {len(files) - SHOWN:,} more"] if len(files) > SHOWN else []
    many = f"{MAX_FILES:,} or more" if len(files) >= MAX_FILES else f"{len(files):,}"
    without = f", {HIDDEN} not counted" if (path / HIDDEN).exists() else ""
    counts = _count_folders(files) if len(files) > SHOWN else ""
    return f"{sanitize_name(name)}/ with {many} file{'s' * (len(files) != 1)}{without}: {', '.join(shown)}{counts}"


def _list_files(top: Path) -> Iterator[PurePosixPath]:
    """Yield the files below a folder, relative to it; no linked folder is entered."""
    for folder, folders, names in os.walk(top):
        folders[:] = [each for each in folders if each != HIDDEN]
        place = PurePosixPath(os.path.relpath(folder, top))
        yield from (place / name for name in names if name != HIDDEN and os.path.isfile(os.path.join(folder, name)))


def _count_folders(files: list[PurePosixPath]) -> str:
    counts = Counter(each.parts[0] for each in files if len(each.parts) > 1).most_common()
    shown = [f"{sanitize_name(folder)}/ {count:,}" for folder, count in counts[:SHOWN_FOLDERS]]
    more = [f"and {len(counts) - SHOWN_FOLDERS:,} more folders"] if len(counts) > SHOWN_FOLDERS else []
    return f". Files in each folder: {', '.join([*shown, *more])}" if counts else ""


def sanitize_name(name: str) -> str:
    """Return a name as one short line in which nothing hides, and no sentence fits."""
    safe = "".join(c if c.isalnum() or c in "._-/" else "_" for c in make_printable(name))
    return safe[:MAX_NAME_CHARS]
