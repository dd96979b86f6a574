"""Queries for rows of a journal that do not read all others."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator

from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.table import IDS, SELECT

MAX_ID = (1 << 63) - 1
BATCH = 500
"""Rows that are fetched at a time."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events."""

    chains: tuple[str, ...] | None = None
    """Chains to select; `None`: all."""
    desk: str | None = None
    names: tuple[str, ...] = ()
    """Kinds of events to select; empty: all."""

    def format_where(self) -> tuple[str, dict[str, object]]:
        place = "id" if self.chains is None else "+id"  # + keeps SQLite off the index of ids: it must use the chain's
        text, values = f"WHERE {place} > :after AND {place} <= :until", dict[str, object]()
        if self.desk is not None:
            # `to_json` escapes quotes in text, so this pattern matches the field only.
            text, values["desk"] = f"{text} AND instr(data, :desk)", f'"desk":"{self.desk}"'
        for column, allowed in (("chain", self.chains), ("name", self.names or None)):
            if allowed is not None:
                marks = {f"{column}{number}": value for number, value in enumerate(allowed)}
                text, values = f"{text} AND {column} IN ({', '.join(f':{mark}' for mark in marks)})", values | marks
        return text, values


def make_filter(
    chain: str | Collection[str] | None, desk: str | None = None, names: Collection[str] = ()
) -> EventFilter:
    chains = None if chain is None else (chain,) if isinstance(chain, str) else tuple(chain)
    return EventFilter(chains, desk, tuple(names))


def select(
    db: sqlite3.Connection, event_filter: EventFilter, after: int, limit: int | None = None, until: int = MAX_ID
) -> Iterator[Row]:
    """Yield rows in order, in batches: a slow reader must not keep a transaction open and block checkpoints."""
    if event_filter.chains is not None:
        yield from _select_chains(db, event_filter, after, limit, until)
        return
    where, names = event_filter.format_where()
    if limit is not None:
        after = _find_tail_start(db, event_filter, after, limit, until)
    while True:
        query = SELECT + where + f" ORDER BY id LIMIT {BATCH}"
        rows = db.execute(query, {**names, "after": after, "until": until}).fetchall()
        yield from (Row(*record) for record in rows)
        if len(rows) < BATCH:
            return
        after = rows[-1][0]


def _select_chains(
    db: sqlite3.Connection, event_filter: EventFilter, after: int, limit: int | None, until: int
) -> Iterator[Row]:
    """Yield rows of some chains: find their ids by the index first, then fetch rows in batches."""
    where, names = event_filter.format_where()
    found = db.execute(IDS + where, {**names, "after": after, "until": until})
    ids = sorted(number for (number,) in found)
    if limit is not None:
        ids = ids[max(len(ids) - limit, 0) :]
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        query = f"{SELECT} WHERE id IN ({', '.join('?' * len(some))}) ORDER BY id"
        yield from [Row(*record) for record in db.execute(query, some).fetchall()]


def _find_tail_start(db: sqlite3.Connection, event_filter: EventFilter, after: int, limit: int, until: int) -> int:
    where, names = event_filter.format_where()
    query = SELECT + where + " ORDER BY id DESC LIMIT 1 OFFSET :limit"
    found = db.execute(query, {**names, "after": after, "until": until, "limit": limit}).fetchone()
    return after if found is None else int(found[0])
