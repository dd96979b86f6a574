"""The journal's file: one SQLite table, and how writers and readers open it."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from hotdesk.drive.chain import Row
from hotdesk.errors import BriefError, HostError
from hotdesk.linux import private_files

FILE = "journal.db"
LOCK = "journal.lock"
FORMAT = 1
LOCK_TIMEOUT_S = 10.0
"""Seconds to wait for another writer."""
TABLE = """CREATE TABLE events (
 id INTEGER PRIMARY KEY,
 chain TEXT NOT NULL,
 seq INTEGER NOT NULL,
 at INTEGER NOT NULL,
 actor TEXT NOT NULL,
 name TEXT NOT NULL,
 version INTEGER NOT NULL,
 data TEXT NOT NULL,
 hash BLOB NOT NULL,
 signature BLOB,
 UNIQUE (chain, seq)
) STRICT"""
SELECT = "SELECT id, chain, seq, at, actor, name, version, data, hash, signature FROM events "
IDS = "SELECT id FROM events "
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
HAS = "SELECT 1 FROM events WHERE chain = ?1 AND (?2 IS NULL OR name = ?2) LIMIT 1"
LAST = SELECT + "WHERE chain = ? ORDER BY seq DESC LIMIT 1"
ONE = SELECT + "WHERE chain = ? AND seq = ?"


def prepare(path: Path) -> None:
    """Create the file with private permissions, which SQLite's additional files inherit."""
    with private_files.enter_folder(path.parent) as place, suppress(FileExistsError):
        os.close(private_files.create(place, path.name))
        os.fsync(place)
    require_plain(path)


def require_plain(path: Path) -> None:
    """Raise for a journal that is missing, a link or a device, because SQLite would follow it."""
    try:
        kind = path.lstat().st_mode
    except OSError as e:
        raise BriefError(f"there is no journal at {path}: {e.strerror}") from e
    if not stat.S_ISREG(kind):
        raise HostError(f"the journal {path} is not a regular file; replace it with a backup of that file")


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open the file with settings for untrusted content."""
    with translate_errors():
        mode = "ro" if read_only else "rw"
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None)
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "mmap_size=0", "temp_store=MEMORY"):
            db.execute(f"PRAGMA {pragma}")
        return db


def set_up(db: sqlite3.Connection) -> None:
    """Set the file up for commits that are on disk when they return."""
    (mode,) = db.execute("PRAGMA journal_mode=WAL").fetchone()
    if mode != "wal":
        raise HostError(
            f"the journal's file system does not support SQLite's write-ahead log (it uses journal_mode={mode}); "
            "set HOTDESK_HOME to a folder on a local file system"
        )
    db.execute("PRAGMA synchronous=FULL")
    with transaction(db):
        _make_table(db)


def _make_table(db: sqlite3.Connection) -> None:
    """Create the table in an empty file; raise `HostError` for any other schema, such as an added trigger."""
    tables = read_schema(db)
    if not tables:
        db.execute(TABLE)
        db.execute(f"PRAGMA user_version={FORMAT}")
    elif tables != [TABLE]:
        raise HostError("the schema of the journal's file was changed; run `hotdesk journal verify`")


def read_schema(db: sqlite3.Connection) -> list[str]:
    """Return the statements that made a file's schema, without SQLite's automatic indexes."""
    return [str(sql) for (sql,) in db.execute("SELECT sql FROM sqlite_master") if sql is not None]


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block in an exclusive transaction: write all of it or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


@contextmanager
def translate_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        remedies = {"SQLITE_FULL": "free some disk space", "SQLITE_BUSY": "another process uses the file; try again"}
        code = str(getattr(e, "sqlite_errorname", ""))
        remedy = next((text for name, text in remedies.items() if code.startswith(name)), "check the disk")
        raise HostError(f"the journal cannot be used: {e}; {remedy}") from e


def list_values(row: Row) -> tuple[Any, ...]:
    return row.id, row.chain, row.seq, row.at, row.actor, row.name, row.version, row.data, row.hash, row.signature


def fetch_row(cursor: sqlite3.Cursor) -> Row | None:
    record = cursor.fetchone()
    return None if record is None else Row(*record)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    require_plain(path)
    with translate_errors(), closing(connect(path, read_only=True)) as db:
        yield db
