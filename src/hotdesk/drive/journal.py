"""The journal: events in order in one SQLite file, with one hash chain per job or desk."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Generator, Iterator
from pathlib import Path

from hotdesk.drive.chain import Head, Row, check_names, compute_digest, encode_statement
from hotdesk.drive.rows import MAX_ID, make_filter, select
from hotdesk.drive.signing import Signer, is_signed
from hotdesk.drive.table import (
    FILE as FILE,
)
from hotdesk.drive.table import (
    HAS,
    INSERT,
    LAST,
    LOCK,
    ONE,
    SELECT,
    connect,
    fetch_row,
    list_values,
    prepare,
    reading,
    set_up,
    transaction,
    translate_errors,
)
from hotdesk.errors import BriefError, HostError
from hotdesk.event import VERSION, Event, to_json
from hotdesk.linux import private_files

LARGEST = 1 << 20
"""Maximum bytes of an event."""
_MAX_TIME = (1 << 63) - 1
"""Maximum time of an event in milliseconds since the epoch: SQLite's largest number."""


class Journal:
    """Writes events. Several processes may write to one file; commits are serialized.

    `add` buffers an event. `commit` writes everything buffered, all or nothing, and it is on disk on return. After a
    commit that failed everything is still buffered: commit again, or discard it.
    """

    def __init__(self, path: Path, signer: Signer) -> None:
        self.signer = signer
        self._buffer: list[Row] = []
        self._heads: dict[str, Row] = {}
        """The last row of each chain that this object has written to."""
        self._sure: dict[str, int] = {}
        """SQLite's data version when a chain's last row was known to be the one in `_heads`."""
        self._last_commit = (-1, 0)
        """SQLite's data version after this object's last commit, and the number of events then."""
        with private_files.hold_lock(path.parent, LOCK):  # SQLite does not wait while others switch to WAL
            prepare(path)
            self._db = connect(path)
            try:
                with translate_errors():
                    set_up(self._db)
            except HostError:
                self._db.close()
                raise

    def add(self, chain: str, actor: str, event: Event, at: int | None = None) -> None:
        """Buffer an event for the next commit. `at` is its time in milliseconds since the epoch; `None`: now."""
        check_names(chain, actor)
        data = to_json(event)
        if len(data) > LARGEST:
            raise BriefError(f"the event {type(event).__name__} has more than {LARGEST} bytes, the limit of an event")
        at = int(time.time() * 1000) if at is None else at
        if not 0 <= at <= _MAX_TIME:
            raise BriefError(f"the time of the event {type(event).__name__} is not between 0 and {_MAX_TIME}")
        self._buffer.append(Row(0, chain, 0, at, actor, type(event).__name__, VERSION, data, b"", None))

    @property
    def waiting(self) -> int:
        return len(self._buffer)

    def commit(self) -> None:
        """Write the buffered events in one transaction; raise `HostError` if that fails, and then none is written."""
        if not self._buffer:
            return
        with translate_errors(), transaction(self._db):
            version, count = self._look()
            ends = {chain: self._load_chain_end(chain, version) for chain in {row.chain for row in self._buffer}}
            heads = self._write({chain: row for chain, row in ends.items() if row is not None}, count)
        self._last_commit = (version, count + len(self._buffer))
        self._heads.update(heads)
        self._sure.update(dict.fromkeys(heads, version))
        self._buffer.clear()

    def discard(self) -> None:
        """Drop the buffered events, after a failed commit, if what they record did not happen."""
        self._buffer.clear()

    def find_head(self, chain: str) -> Head | None:
        with translate_errors():
            return _make_head(fetch_row(self._db.execute(LAST, (chain,))))

    def list_heads(self) -> list[Head]:
        with translate_errors():
            return list(iterate_heads(self._db))

    def has(self, chain: str, kind: type[Event] | None = None) -> bool:
        """Return whether a chain has an event, or one of a kind. Buffered events count."""
        name = None if kind is None else kind.__name__
        if any(row.chain == chain and name in (None, row.name) for row in self._buffer):
            return True
        with translate_errors():
            return self._db.execute(HAS, (chain, name)).fetchone() is not None

    def read_last(self) -> Row | None:
        with translate_errors():
            return fetch_row(self._db.execute(SELECT + "ORDER BY id DESC LIMIT 1"))

    def read_verified(self, chain: str) -> Iterator[Row]:
        """Yield a chain's events, oldest first; raise `HostError` if one is not hashed onto the one before."""
        before = None
        with translate_errors():
            for row in select(self._db, make_filter(chain), 0):
                if row.seq != (before.seq + 1 if before else 1) or row.hash != compute_digest(row, before):
                    raise HostError(f"chain {chain} was changed since it was written; run `hotdesk journal verify`")
                before = row
                yield row

    def forget(self, chain: str) -> None:
        self._heads.pop(chain, None)
        self._sure.pop(chain, None)

    def close(self) -> None:
        """Close the file; buffered events are lost."""
        self._db.close()

    def _look(self) -> tuple[int, int]:
        """Return SQLite's data version, which changes when another process has written, and the last row's number."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        if version == self._last_commit[0]:
            return self._last_commit
        (count,) = self._db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        return version, count

    def _load_chain_end(self, chain: str, version: int) -> Row | None:
        """Return the last row of a chain if it is safe to continue; `None`: the chain is empty.

        A signature on later events vouches for the earlier ones, so the last row must be the one this object wrote, or
        have a valid signature.
        """
        ours = self._heads.get(chain)
        if ours is not None and self._sure[chain] == version:
            return ours
        last = fetch_row(self._db.execute(LAST, (chain,)))
        if last == ours:
            return last
        if ours is not None and not self._holds(ours):
            raise HostError(f"events of chain {chain} were removed or changed; run `hotdesk journal verify`")
        if last is None:
            return None
        signed = last.signature is not None and is_signed(
            self.signer.public, encode_statement(chain, last.seq, last.hash), last.signature
        )
        if not signed:
            raise HostError(f"chain {chain} ends in an event without a valid signature; run `hotdesk journal verify`")
        return last

    def _holds(self, row: Row) -> bool:
        return fetch_row(self._db.execute(ONE, (row.chain, row.seq))) == row

    def _write(self, heads: dict[str, Row], count: int) -> dict[str, Row]:
        """Number, hash and sign the buffered events and insert them; return the new last rows."""
        ends = {row.chain: place for place, row in enumerate(self._buffer)}
        written = []
        for place, draft in enumerate(self._buffer):
            before = heads.get(draft.chain)
            row = _place_row(draft, count + 1 + place, before.seq + 1 if before else 1)
            hashed = compute_digest(row, before)
            last = ends[row.chain] == place
            signature = self.signer.sign(encode_statement(row.chain, row.seq, hashed)) if last else None
            heads[row.chain] = row = _place_row(row, row.id, row.seq, hashed, signature)
            written.append(list_values(row))
        self._db.executemany(INSERT, written)
        return heads


def _place_row(row: Row, number: int, seq: int, hashed: bytes = b"", signature: bytes | None = None) -> Row:
    """Return a row with its numbers, hash and signature; `dataclasses.replace` takes five times as long."""
    return Row(number, row.chain, seq, row.at, row.actor, row.name, row.version, row.data, hashed, signature)


def _make_head(row: Row | None) -> Head | None:
    if row is None:
        return None
    if row.signature is None:
        raise HostError(f"chain {row.chain} ends in an unsigned event; run `hotdesk journal verify`")
    return Head(row.chain, row.seq, row.hash, row.signature)


def iterate_heads(db: sqlite3.Connection) -> Iterator[Head]:
    for (chain,) in db.execute("SELECT DISTINCT chain FROM events ORDER BY chain").fetchall():
        if head := _make_head(fetch_row(db.execute(LAST, (chain,)))):
            yield head


def read_heads(path: Path) -> list[Head]:
    with reading(path) as db:
        return list(iterate_heads(db))


def find_chain(path: Path, text: str) -> str:
    """Return the chain with this name, or the only one that starts with it; an unknown name is returned unchanged."""
    with reading(path) as db:
        query = "SELECT DISTINCT chain FROM events WHERE substr(chain, 1, ?) = ? ORDER BY chain"
        found = [str(chain) for (chain,) in db.execute(query, (len(text), text))]
    if text in found or not found or not text:
        return text
    if len(found) > 1:
        raise BriefError(
            f"several chains start with {text[:40]!r}: {', '.join(found[:20])}; write one of these names in full"
        )
    return found[0]


def export_head(path: Path, chain: str) -> str:
    with reading(path) as db:
        head = _make_head(fetch_row(db.execute(LAST, (chain,))))
    if head is None:
        raise BriefError(f"the journal has no chain {chain[:80]!r}; `hotdesk journal head` lists the chains")
    return str(head)


def read(
    path: Path,
    chain: str | Collection[str] | None = None,
    *,
    desk: str | None = None,
    names: Collection[str] = (),
    after: int = 0,
    until: int = MAX_ID,
    limit: int | None = None,
) -> Generator[Row, None, None]:
    """Yield the events after an id, in order. `limit` selects the newest ones, `names` the kinds of events."""
    with reading(path) as db:
        yield from select(db, make_filter(chain, desk, names), after, limit, until)


def follow(
    path: Path,
    chain: str | Collection[str] | None = None,
    *,
    desk: str | None = None,
    limit: int | None = None,
    every: float = 0.3,
) -> Generator[Row | None, None, None]:
    """Yield the existing events, then new ones, and `None` each time there is nothing new."""
    event_filter = make_filter(chain, desk)
    with reading(path) as db:
        (after,) = db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        yield from select(db, event_filter, 0, limit, until=after)
        while True:
            yield None
            time.sleep(every)
            for row in select(db, event_filter, after):
                after = row.id
                yield row
