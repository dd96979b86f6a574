"""Exports of a journal, or of one job in it, as lines that can be verified without the journal.

The first line is a title, then comes one event per line, exactly as it was hashed and signed, and last the head of
every chain. If an export and its heads are both cut, a head that was stored elsewhere reveals it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hotdesk.drive.chain import Head, Row, parse_head
from hotdesk.drive.journal import iterate_heads
from hotdesk.drive.journal_audit import MAX_FAULTS, AuditReport, Walk
from hotdesk.drive.rows import make_filter, select
from hotdesk.drive.table import reading
from hotdesk.errors import BriefError

FORMAT = 1
LARGEST = 4 << 20
"""Maximum characters of a line."""
FIELDS = {
    "id": int, "chain": str, "seq": int, "at": int, "actor": str, "event": str, "version": int, "data": str,
    "hash": str, "signature": str,
}  # fmt: skip


def export(path: Path, chains: Collection[str] | None = None) -> Iterator[str]:
    """Yield the lines of an export: all chains, or those given, from one consistent snapshot."""
    with reading(path) as db:
        db.execute("BEGIN")
        if chains is not None:
            existing = {chain for (chain,) in db.execute("SELECT DISTINCT chain FROM events")}
            chains = [chain for chain in chains if chain in existing]
        yield json.dumps({"hotdesk-journal": FORMAT, "whole": chains is None})
        for row in select(db, make_filter(chains), 0):
            yield as_line(row)
        yield from (json.dumps({"head": str(head)}) for head in _select_heads(db, chains))


def _select_heads(db: sqlite3.Connection, chains: Collection[str] | None) -> Iterator[Head]:
    return (head for head in iterate_heads(db) if chains is None or head.chain in chains)


def as_line(row: Row) -> str:
    fields = {"id": row.id, "chain": row.chain, "seq": row.seq, "at": row.at, "actor": row.actor, "event": row.name}
    fields |= {"version": row.version, "data": row.data, "hash": row.hash.hex()}
    return json.dumps(fields | ({"signature": row.signature.hex()} if row.signature is not None else {}))


def verify_export(lines: Iterable[str], key: Ed25519PublicKey, since: Sequence[Head] = ()) -> AuditReport:
    """Verify an export against a key, its heads and those stored elsewhere; raise `BriefError` if it is invalid."""
    rest = iter(lines)
    whole = _parse_title(next(rest, ""))
    walk = Walk(key, {(head.chain, head.seq): None for head in since}, thorough=True, whole=whole)
    ended: dict[str, Head] = {}
    for number, line in enumerate(rest, 2):
        if len(walk.faults) >= MAX_FAULTS:
            break
        match _parse_line(line):
            case Row() as row if not ended:
                walk.step(row)
            case Head() as head if head.chain not in ended:
                ended[head.chain] = head
            case _:
                walk.blame(
                    "unreadable",
                    "",
                    0,
                    f"line {number} of the export is not an event or a head, or is in the wrong place",
                )
    _check_ends(walk, ended)
    heads = [head for head in since if whole or head.chain in walk.ends or head.chain in ended]
    walk.finish(heads)
    return AuditReport(len(walk.ends), walk.events, tuple(walk.faults[:MAX_FAULTS]), len(since) - len(heads))


def _check_ends(walk: Walk, ended: dict[str, Head]) -> None:
    for chain in walk.ends.keys() | ended.keys():
        last, head = walk.ends.get(chain), ended.get(chain)
        if head is None:
            walk.blame(
                "head",
                chain,
                last.seq if last else 0,
                "the export lacks the signed head of this chain, with which the chain should end",
            )
        elif not walk.is_signed(head.chain, head.seq, head.hash, head.signature):
            walk.blame("head", chain, head.seq, "the saved head was not signed with this key")
        elif last is None or last.seq < head.seq:
            walk.blame("cut", chain, head.seq, "events were removed from the end of the chain after the head was saved")
        elif (last.seq, last.hash) != (head.seq, head.hash):
            walk.blame("head", chain, head.seq, "the last event of the chain does not match its head")


def _parse_title(line: str) -> bool:
    """Parse the first line; return whether the export has the whole journal."""
    match load_json(line):
        case {"hotdesk-journal": 1, "whole": bool(whole), **rest} if not rest:
            return whole
    raise BriefError("this is not an export of a journal; `hotdesk journal export` writes one")


def _parse_line(line: str) -> Row | Head | None:
    """Parse an event or a head; return `None` for anything else."""
    data = load_json(line)
    try:
        if isinstance(data, dict) and data.keys() == {"head"}:
            return parse_head(str(data["head"]))
        return parse_row(data)
    except (ValueError, BriefError):
        return None


def parse_row(fields: object) -> Row | None:
    """Return an event, or `None` if the fields are not one."""
    if not isinstance(fields, dict) or fields.keys() | {"signature"} != FIELDS.keys():
        return None
    if any(type(value) is not FIELDS[name] for name, value in fields.items()):
        return None
    number, chain, seq, at, actor, name, version, data, hashed = (fields[field] for field in list(FIELDS)[:9])
    try:
        signature = bytes.fromhex(fields["signature"]) if "signature" in fields else None
        return Row(number, chain, seq, at, actor, name, version, data, bytes.fromhex(hashed), signature)
    except ValueError:
        return None


def load_json(line: str) -> object:
    """Parse a line of JSON; return `None` if it is invalid or too long."""
    try:
        return json.loads(line) if len(line) <= LARGEST else None
    except (ValueError, RecursionError):
        return None
