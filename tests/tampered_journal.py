"""What an attacker does to a journal's file who may write it, but has no key."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hotdesk.drive.chain import Row, compute_digest
from hotdesk.drive.journal import read
from hotdesk.drive.table import list_values


def tamper(path: Path, *statements: str) -> None:
    """Change the file as an attacker who may write it but has no key."""
    with closing(sqlite3.connect(path)) as db:
        for text in statements:
            db.execute(text)
        db.commit()


def rewrite(path: Path, sign: Callable[[Row], bytes | None]) -> None:
    """Change the first event and hash the whole file again."""
    rows = list(read(path))
    rows[0] = replace(rows[0], data=rows[0].data.replace("erp.test", "evil.test"))
    ends: dict[str, Row] = {}
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM events")
        for row in rows:
            row = replace(row, hash=compute_digest(row, ends.get(row.chain)))
            row = replace(row, signature=sign(row) if row.signature else None)
            db.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", list_values(row))
            ends[row.chain] = row
        db.commit()
