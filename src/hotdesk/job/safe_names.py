"""Names of inputs for a planner's prompt. File names are untrusted too."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from hotdesk.brief.brief import Brief, locate_input
from hotdesk.errors import make_printable

SHOWN = 40
"""Maximum names of a folder that are listed."""
SHOWN_FOLDERS = 20
"""Maximum subfolders that are listed with their number of files."""
MAX_FILES = 100_000
"""Maximum files of a folder that are counted."""
MAX_NAME_CHARS = 80
HIDDEN = ".git"
"""A folder that is not listed: it says nothing about a repository's content."""


def describe_inputs(job: Brief) -> tuple[str, ...]:
    """Describe a brief's inputs by name; of a folder, some names and the number of files."""
    return tuple(describe_input(job.folder / name, locate_input(name)) for name in job.inputs)


def describe_input(path: Path, name: str) -> str:
    """Describe one input: its name, and for a folder its topmost paths and subfolders' file counts."""
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
    """Yield the files below a folder, relative to it, without following linked folders."""
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
    """Return a name as one short line of letters, digits and `._-/`, so that it cannot hold a sentence."""
    safe = "".join(c if c.isalnum() or c in "._-/" else "_" for c in make_printable(name))
    return safe[:MAX_NAME_CHARS]
