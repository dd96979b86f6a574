"""Select rows of a journal without reading all others."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator

from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Row
from hotdesk.drive.table import IDS, SELECT

BATCH = 500
"""Rows that are read at a time."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events."""

    chains: tuple[str, ...] | None = None
    """None: of every chain."""
    desk: str | None = None
    names: tuple[str, ...] = ()
    """None named: events of every kind."""

    def format_where(self) -> tuple[str, dict[str, object]]:
        place = "id" if self.chains is None else "+id"  # a chain's events are found by the chain, not one by one
        text, values = f"WHERE {place} > :after AND {place} <= :until", dict[str, object]()
        if self.desk is not None:
            # `to_json` wrote the data: inside a text of it a quote has a backslash before it, so this is the field.
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
    db: sqlite3.Connection, event_filter: EventFilter, after: int, limit: int | None = None, until: int = (1 << 63) - 1
) -> Iterator[Row]:
    """Yield rows in order, some at a time: a reader that dawdles must not keep the file from being tidied."""
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
    """Yield rows of some chains: first their places, by the index, and then some at a time."""
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
