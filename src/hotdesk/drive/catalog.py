"""The drive's catalog: names with versions, owners, readers and origins, in one SQLite file.

A name belongs to one owner; two owners may use the same name without knowing of each other. Version numbers are never
reused: a reference such as `report.xlsx@3` always means the same file, or none.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from hotdesk.dataclass import dataclass
from hotdesk.drive.blobs import Staged
from hotdesk.drive.identity import may_read
from hotdesk.drive.names import format_name
from hotdesk.drive.table import read_schema, transaction
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files

FILE = "drive.db"
LOCK = "drive.lock"
FORMAT = 1
LOCK_TIMEOUT_S = 60.0
"""Seconds to wait for another writer."""
TABLES = [
    """CREATE TABLE names (
 id INTEGER PRIMARY KEY,
 owner TEXT NOT NULL,
 name TEXT NOT NULL,
 readers TEXT NOT NULL,
 last INTEGER NOT NULL,
 UNIQUE (owner, name)
) STRICT""",
    """CREATE TABLE versions (
 name INTEGER NOT NULL REFERENCES names (id),
 number INTEGER NOT NULL,
 sha256 TEXT NOT NULL,
 size INTEGER NOT NULL,
 at INTEGER NOT NULL,
 job TEXT NOT NULL,
 brief TEXT NOT NULL,
 certificate TEXT NOT NULL,
 PRIMARY KEY (name, number)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX blobs ON versions (sha256)",
]
SELECT = """SELECT n.name, v.number, v.sha256, v.size, v.at, n.owner, v.job, v.brief, v.certificate, n.readers
 FROM versions v JOIN names n ON n.id = v.name """
USED = """SELECT coalesce(sum(size), 0) FROM
 (SELECT DISTINCT v.sha256, v.size FROM versions v JOIN names n ON n.id = v.name WHERE n.owner = ?)"""


@dataclass(frozen=True, slots=True)
class Origin:
    """The job that made a file, its brief and its certificate."""

    job: str = ""
    brief: str = ""
    """SHA-256 of the brief."""
    certificate: str = ""
    """SHA-256 of the certificate, a blob of its own; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file."""

    name: str
    number: int
    sha256: str
    size: int
    at: int
    """Milliseconds since the epoch."""
    owner: str
    job: str
    brief: str
    certificate: str
    path: Path
    """The path of its blob."""
    readers: tuple[str, ...] = ()
    """Other identities that may read it."""


class Catalog:
    """The catalog of one drive. Several processes may use it at once; writers are serialized."""

    def __init__(self, folder: Path, blobs: Path) -> None:
        self.path, self.blobs = folder / FILE, blobs
        with private_files.hold_lock(folder, LOCK):  # SQLite does not wait while others switch to WAL
            prepare(self.path)
            with translate_errors(), closing(self.connect()) as db:
                set_up(db)

    def connect(self) -> sqlite3.Connection:
        """Open the file, with commits that are on disk when they return."""
        require_plain(self.path)
        uri = f"{self.path.absolute().as_uri()}?mode=rw"
        db = sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None)
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "mmap_size=0",
            "synchronous=FULL",
            "foreign_keys=ON",
        ):
            db.execute(f"PRAGMA {pragma}")
        return db

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with translate_errors(), closing(self.connect()) as db:
            db.execute("BEGIN")
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in an exclusive transaction: all or nothing is written, and on disk after the block."""
        with translate_errors(), closing(self.connect()) as db, transaction(db):
            yield db

    def list_versions(self, db: sqlite3.Connection, where: str, values: tuple[object, ...], who: str) -> list[Version]:
        found = (self.read_version(row) for row in db.execute(SELECT + where, values))
        return [each for each in found if may_read(who, each.owner, each.readers)]

    def read_version(self, row: tuple[Any, ...]) -> Version:
        name, number, sha256, size, at, owner, job, brief, certificate, readers = row
        path, allowed = self.blobs / sha256, tuple(readers.split())
        return Version(name, number, sha256, size, at, owner, job, brief, certificate, path, allowed)

    def list_history(self, db: sqlite3.Connection, name: str, who: str, owner: str = "") -> list[Version]:
        """List a name's versions, oldest first: those of `who`, or a shared one's; raise `BriefError` for none."""
        where = "WHERE n.name = ? AND (? = '' OR n.owner = ?) ORDER BY n.owner, v.number"
        found = self.list_versions(db, where, (name, owner, owner), who)
        owners = {each.owner for each in found}
        if who in owners:
            return [each for each in found if each.owner == who]
        if not found:
            raise BriefError(f"no such name in the drive: {format_name(name)}; `hotdesk drive ls` lists the names")
        if len(owners) > 1:
            raise BriefError(
                f"several owners have a file {format_name(name)!r}: {', '.join(sorted(owners)[:8])}; pass --owner OWNER"
            )
        return found

    def list_newest(self, db: sqlite3.Connection, prefix: str, who: str) -> list[Version]:
        where = """WHERE substr(n.name, 1, length(?)) = ?
 AND v.number = (SELECT max(number) FROM versions WHERE name = n.id) ORDER BY n.name, n.owner"""
        return self.list_versions(db, where, (prefix, prefix), who)

    def of_blob(self, db: sqlite3.Connection, sha256: str, who: str) -> list[Version]:
        return self.list_versions(db, "WHERE v.sha256 = ? OR v.certificate = ?", (sha256, sha256), who)

    def add(
        self,
        db: sqlite3.Connection,
        name: str,
        owner: str,
        staged: Staged,
        origin: Origin,
        readers: tuple[str, ...] | None = None,
        at: int | None = None,
    ) -> Version:
        """Add a name's next version. Its readers stay unless new ones are given."""
        db.execute(
            "INSERT INTO names (owner, name, readers, last) VALUES (?, ?, '', 0) ON CONFLICT DO NOTHING", (owner, name)
        )
        query = "UPDATE names SET last = last + 1, readers = coalesce(?, readers) WHERE owner = ? AND name = ?"
        reader_text = None if readers is None else " ".join(readers)
        ((number, last),) = db.execute(f"{query} RETURNING id, last", (reader_text, owner, name)).fetchall()
        moment = int(time.time() * 1000) if at is None else at
        row = (number, last, staged.sha256, staged.size, moment, origin.job, origin.brief, origin.certificate)
        db.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        (record,) = db.execute(SELECT + "WHERE v.name = ? AND v.number = ?", (number, last)).fetchall()
        return self.read_version(record)

    def remove(self, db: sqlite3.Connection, version: Version) -> None:
        where = "name = (SELECT id FROM names WHERE owner = ? AND name = ?) AND number = ?"
        db.execute(f"DELETE FROM versions WHERE {where}", (version.owner, version.name, version.number))  # noqa: S608

    def count_used_bytes(self, db: sqlite3.Connection, owner: str) -> int:
        """Return the total bytes of an owner's blobs; a blob in several versions counts once."""
        return int(db.execute(USED, (owner,)).fetchone()[0])

    def has(self, db: sqlite3.Connection, owner: str, sha256: str) -> bool:
        query = "SELECT 1 FROM versions v JOIN names n ON n.id = v.name WHERE n.owner = ? AND v.sha256 = ?"
        return db.execute(query, (owner, sha256)).fetchone() is not None

    def measure_largest(self, db: sqlite3.Connection, owner: str) -> int:
        """Return the bytes of an owner's largest blob."""
        query = "SELECT max(v.size) FROM versions v JOIN names n ON n.id = v.name WHERE n.owner = ?"
        return int(db.execute(query, (owner,)).fetchone()[0] or 0)

    def list_certificates(self, db: sqlite3.Connection) -> set[str]:
        return {sha256 for (sha256,) in db.execute("SELECT certificate FROM versions WHERE certificate != ''")}

    def is_referenced(self, db: sqlite3.Connection, sha256: str) -> bool:
        return db.execute("SELECT 1 FROM versions WHERE sha256 = ? LIMIT 1", (sha256,)).fetchone() is not None


def prepare(path: Path) -> None:
    """Create the file with private permissions, which SQLite's additional files inherit."""
    with private_files.enter_folder(path.parent) as place, suppress(FileExistsError):
        os.close(private_files.create(place, path.name))
        os.fsync(place)


def require_plain(path: Path) -> None:
    """Raise `HostError` for a catalog that is a link or a device, because SQLite would follow it."""
    try:
        kind = path.lstat().st_mode
    except OSError as e:
        raise HostError(f"the drive's catalog {path} cannot be used: {e.strerror}") from e
    if not stat.S_ISREG(kind):
        raise HostError(f"the drive's catalog {path} is not a regular file; replace it with a backup of that file")


def set_up(db: sqlite3.Connection) -> None:
    """Create the tables in an empty file; raise `HostError` for a newer format or a changed schema."""
    (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise HostError(
            f"the drive's file system does not support SQLite's write-ahead log (it uses journal_mode={mode}); "
            "set HOTDESK_HOME to a folder on a local file system"
        )
    with transaction(db):
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > FORMAT:
            raise HostError(
                f"the drive has format {version}, but this version of hotdesk supports {FORMAT}; use a newer hotdesk"
            )
        tables = read_schema(db)
        if not tables:
            for statement in TABLES:
                db.execute(statement)
            db.execute(f"PRAGMA user_version={FORMAT}")
        elif tables != TABLES:
            raise HostError(f"the drive's catalog {FILE} has a changed schema; restore it from a backup")


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        code = str(getattr(e, "sqlite_errorname", ""))
        remedies = {"SQLITE_FULL": "free some disk space", "SQLITE_BUSY": "another process uses the file; try again"}
        remedy = next((text for name, text in remedies.items() if code.startswith(name)), "check the disk")
        raise HostError(f"the drive's catalog cannot be used: {e}; {remedy}") from e
