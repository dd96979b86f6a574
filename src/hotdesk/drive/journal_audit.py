"""Verify that a journal is intact, or report each fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotdesk.dataclass import dataclass
from hotdesk.drive.chain import Head, Row, compute_digest, encode_statement
from hotdesk.drive.signing import is_signed
from hotdesk.drive.table import SELECT, TABLE, read_schema, reading

MAX_FAULTS = 1000
"""Maximum number of listed faults; after it, reading stops."""
TYPES = ((int,), (str,), (int,), (int,), (str,), (str,), (int,), (str,), (bytes,), (bytes, type(None)))
What: TypeAlias = Literal["shape", "unreadable", "gap", "order", "changed", "signature", "unsigned", "cut", "head"]


@dataclass(frozen=True, slots=True)
class JournalFault:
    """One deviation from what was written."""

    what: What
    chain: str
    seq: int
    why: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The extent and findings of an audit."""

    chains: int
    events: int
    faults: tuple[JournalFault, ...]
    skipped_heads: int = 0
    """Saved heads that were not compared, because an export of some chains has nothing of theirs."""


@dataclass(slots=True)
class Walk:
    """The state of verifying a journal, and the findings so far."""

    key: Ed25519PublicKey
    hashes: dict[tuple[str, int], bytes | None]
    """The hash found at each place that a saved head refers to; `None`: the place was not found."""
    last: Row | None = None
    ends: dict[str, Row] = field(default_factory=dict)
    events: int = 0
    faults: list[JournalFault] = field(default_factory=list)
    thorough: bool = False
    """Whether every signature is verified, and not only the last of each chain."""
    whole: bool = True
    """Whether the rows are the whole file; if not, they are all events of some chains."""

    def blame(self, what: What, chain: str, seq: int, why: str) -> None:
        self.faults.append(JournalFault(what, chain, seq, why))

    def step(self, row: Row) -> None:
        """Verify one event against those before it."""
        self.events += 1
        self.check_place(row)
        self.check_link(row, self.ends.get(row.chain))
        if self.thorough:
            self.check_signature(row)
        if (row.chain, row.seq) in self.hashes:
            self.hashes[row.chain, row.seq] = row.hash
        self.last = self.ends[row.chain] = row

    def check_place(self, row: Row) -> None:
        expected = 1 if self.last is None else self.last.id + 1
        if not self.whole and row.id < expected:
            self.blame(
                "order",
                row.chain,
                row.seq,
                f"row {row.id} of the file follows row {expected - 1}: rows are out of order",
            )
        elif self.whole and row.id != expected:
            self.blame("gap", row.chain, row.seq, f"row {row.id} of the file follows a gap: row {expected} is missing")

    def check_link(self, row: Row, before: Row | None) -> None:
        """Check that an event is hashed onto the one before it in its chain."""
        expected = 1 if before is None else before.seq + 1
        if row.seq > expected:
            self.blame("gap", row.chain, row.seq, f"events {expected} to {row.seq - 1} of the chain are missing")
        elif row.seq < expected:
            self.blame("order", row.chain, row.seq, f"event {row.seq} is in the place of event {expected}")
        elif compute_digest(row, before) != row.hash:
            self.blame("changed", row.chain, row.seq, "this event or the one before it was changed")

    def check_signature(self, row: Row) -> None:
        if row.signature is not None and not self.is_signed(row.chain, row.seq, row.hash, row.signature):
            self.blame("signature", row.chain, row.seq, "the signature was not made with this key")

    def finish(self, heads: Sequence[Head]) -> None:
        """Check that every chain ends in a signature, and that saved heads are still in it."""
        for row in self.ends.values():
            if row.signature is None:
                self.blame("unsigned", row.chain, row.seq, "the chain ends in an unsigned event")
            elif not self.thorough:
                self.check_signature(row)
        for head in heads:
            self.check_head(head)

    def check_head(self, head: Head) -> None:
        found = self.hashes[head.chain, head.seq]
        if not self.is_signed(head.chain, head.seq, head.hash, head.signature):
            self.blame("head", head.chain, head.seq, "the saved head was not signed with this key")
        elif found is None:
            self.blame(
                "cut", head.chain, head.seq, "events were removed from the end of the chain after the head was saved"
            )
        elif found != head.hash:
            self.blame("head", head.chain, head.seq, "the event differs from the one recorded in the saved head")

    def is_signed(self, chain: str, seq: int, hashed: bytes, signature: bytes) -> bool:
        return is_signed(self.key, encode_statement(chain, seq, hashed), signature)


def verify(path: Path, key: Ed25519PublicKey, since: Sequence[Head] = ()) -> AuditReport:
    """Verify a journal against a key and saved heads; raise `HostError` if it cannot be read.

    Without a saved head, a cut at the end cannot be detected.
    """
    with reading(path) as db:
        db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        db.execute("BEGIN")
        report = look(db, key, since)
        return look(db, key, since, thorough=True) if report.faults else report


def look(
    db: sqlite3.Connection, key: Ed25519PublicKey, since: Sequence[Head], *, thorough: bool = False
) -> AuditReport:
    """Verify a journal in one pass.

    Each event is hashed onto the one before, including its signature, so the last signature of an intact chain vouches
    for all events before it. The other signatures are checked only to locate a fault.
    """
    walk = Walk(key, {(head.chain, head.seq): None for head in since}, thorough=thorough)
    _check_shape(db, walk)
    try:
        _take_steps(db, walk)
    except sqlite3.DatabaseError as e:
        walk.blame("unreadable", "", 0, f"the file is damaged: {e}")
    walk.finish(since)
    return AuditReport(len(walk.ends), walk.events, tuple(walk.faults[:MAX_FAULTS]))


def _check_shape(db: sqlite3.Connection, walk: Walk) -> None:
    tables = read_schema(db)
    if tables != [TABLE]:
        walk.blame("shape", "", 0, "the schema of the file was changed")
    (state,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if state != "ok":
        walk.blame("unreadable", "", 0, f"the file is damaged: {state}")


def _take_steps(db: sqlite3.Connection, walk: Walk) -> None:
    for row in iterate_rows(db, walk):
        if len(walk.faults) >= MAX_FAULTS:
            return
        walk.step(row)


def iterate_rows(db: sqlite3.Connection, walk: Walk) -> Iterator[Row]:
    for record in db.execute(SELECT + "ORDER BY id"):
        if all(isinstance(value, kinds) for value, kinds in zip(record, TYPES, strict=True)):
            yield Row(*record)
        else:
            walk.blame("unreadable", str(record[1]), 0, f"row {record[0]} of the file is not an event")
