"""Migration of earlier releases' drives, in which names were links, names/JOB/PATH, to blobs. Runs at opening."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hotdesk.dataclass import dataclass
from hotdesk.drive.blobs import SHAPE, Blobs, Staged
from hotdesk.drive.catalog import Catalog, Origin
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.names import describe_fault
from hotdesk.errors import make_printable

FOLDER = "names"


@dataclass(frozen=True, slots=True)
class LegacyName:
    """One name of an earlier release."""

    path: Path
    name: str
    at: int
    staged: Staged


def take_over(names: Path, blobs: Blobs, catalog: Catalog) -> None:
    """Add missing names to the catalog, then remove the links. After a crash in between, it is repeated."""
    found = list(_iterate_links(names, blobs))
    owner = f"uid:{names.stat().st_uid}"
    with catalog.writing() as db:
        for link in found:
            if not _has_name(db, catalog, link):
                origin = Origin(job=link.name.partition("/")[0])
                catalog.add(db, link.name, owner, link.staged, origin, at=link.at)
    for link in found:
        with suppress(OSError):
            link.path.unlink()
    for folder, _, _ in os.walk(names, topdown=False):
        with suppress(OSError):  # a folder with files that could not be migrated stays
            os.rmdir(folder)


def _iterate_links(names: Path, blobs: Blobs) -> Iterator[LegacyName]:
    for folder, _, files in os.walk(names):
        for file in files:
            path = Path(folder, file)
            with suppress(OSError):
                sha256, at = os.path.basename(os.readlink(path)), int(path.lstat().st_mtime * 1000)
                if SHAPE.fullmatch(sha256):
                    size = blobs.get_path(sha256).lstat().st_size
                    yield LegacyName(
                        path, _convert_name(path.relative_to(names).as_posix()), at, Staged("", sha256, size)
                    )


def _convert_name(name: str) -> str:
    """Return a name that follows today's rules; characters that are no longer allowed are replaced."""
    if not describe_fault(name):
        return name
    plain = "".join(c if c.isalnum() or c in "/._-" else "_" for c in make_printable(name))
    return "/".join(part[:200] or "_" for part in plain.split("/"))


def _has_name(db: sqlite3.Connection, catalog: Catalog, link: LegacyName) -> bool:
    return any(each.name == link.name for each in catalog.of_blob(db, link.staged.sha256, OPERATOR))
