"""Attacks on a journal by someone who may write its file: without the key, or with it and another past."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hotdesk.drive.chain import Head, Row, encode_statement, parse_head
from hotdesk.drive.journal import Journal, export_head
from hotdesk.drive.journal_audit import verify
from hotdesk.drive.signing import Signer
from hotdesk.errors import HostError
from hotdesk.event import Burnt, Event, Exchange
from tests.security.guards import Removal, falls_without
from tests.tampered_journal import rewrite, tamper

SIGNER = Signer(Ed25519PrivateKey.generate())
STRANGER = Signer(Ed25519PrivateKey.generate())
AUDIT = "drive/journal_audit.py"
HASHES_PASS = Removal(
    AUDIT, "        elif compute_digest(row, before) != row.hash:\n", "        elif not compute_digest(row, before):\n"
)
SIGNATURES_PASS = Removal(
    AUDIT,
    "        if row.signature is not None and not self.is_signed(",
    "        if not row.hash and not self.is_signed(",
)
ROWS_PASS = Removal(
    AUDIT, "        elif self.whole and row.id != expected:\n", "        elif self.whole and not expected:\n"
)
GAPS_PASS = Removal(AUDIT, "        if row.seq > expected:\n", "        if not expected:\n")
ORDER_PASSES = Removal(AUDIT, "        elif row.seq < expected:\n", "        elif not expected:\n")
REST = "at, actor, name, version, data, hash, signature FROM events"
FIELDS: dict[str, str] = {
    "the time": "at = at + 1",
    "the actor": "actor = 'person'",
    "the kind": "name = 'Alarm'",
    "the version": "version = 2",
    "the text": "data = replace(data, 'erp.test', 'evil.test')",
}
REMOVED: dict[str, str] = {
    "an event": "DELETE FROM events WHERE id = 3",
    "the first event": "DELETE FROM events WHERE id = 1",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir(mode=0o700)
    return tmp_path / "keys/journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    made = Journal(path, SIGNER)
    for turn in range(3):
        for desk in ("i1", "i2"):
            made.add(desk, "door", exchange(desk, turn))
        made.add("i1", "owner", Burnt("i1", "done"))
        made.commit()
    yield made
    made.close()


def exchange(desk: str, number: int) -> Event:
    return Exchange(desk, "", "allow", "erp.test", "GET", "https", "erp.test", 443, f"/{number}", 200, 10, 20, 3)


def sign_with(signer: Signer) -> Callable[[Row], bytes | None]:
    return lambda row: signer.sign(encode_statement(row.chain, row.seq, row.hash))


def is_intact(path: Path, *heads: Head) -> bool:
    return not verify(path, SIGNER.public, heads).faults


@falls_without("journal: an event is hashed", HASHES_PASS)
@pytest.mark.parametrize("field", FIELDS)
def test_a_changed_event_is_detected(path: Path, journal: Journal, field: str) -> None:
    assert is_intact(path)
    tamper(path, " ".join(["UPDATE events SET", FIELDS[field], "WHERE id = 1"]))
    assert not is_intact(path)


@falls_without("journal: an event is at its place", HASHES_PASS, ROWS_PASS, GAPS_PASS, ORDER_PASSES)
@pytest.mark.parametrize("what", REMOVED)
def test_a_removed_event_is_detected(path: Path, journal: Journal, what: str) -> None:
    tamper(path, REMOVED[what])
    assert not is_intact(path)


@falls_without("journal: no row is missing", ROWS_PASS)
def test_a_removed_desk_is_detected(path: Path, journal: Journal) -> None:
    tamper(path, "DELETE FROM events WHERE chain = 'i2'")
    assert not is_intact(path)


@falls_without("journal: an event is at its place")
def test_two_swapped_events_are_detected(path: Path, journal: Journal) -> None:
    tamper(
        path,
        "UPDATE events SET seq = -1 WHERE chain = 'i1' AND seq = 1",
        "UPDATE events SET seq = 1 WHERE chain = 'i1' AND seq = 3",
        "UPDATE events SET seq = 3 WHERE chain = 'i1' AND seq = -1",
    )
    assert not is_intact(path)


@falls_without("journal: an inserted event is neither hashed nor signed", HASHES_PASS, SIGNATURES_PASS)
def test_an_inserted_event_is_detected(path: Path, journal: Journal) -> None:
    tamper(path, f"INSERT INTO events SELECT 10, 'i1', 7, {REST} WHERE id = 9")
    assert not is_intact(path)


@falls_without("journal: a signature is by its key", SIGNATURES_PASS)
@pytest.mark.parametrize("how", ["old signatures", "another key"])
def test_a_journal_that_was_rewritten_is_detected(path: Path, journal: Journal, how: str) -> None:
    rewrite(path, sign_with(STRANGER) if how == "another key" else lambda row: row.signature)
    assert not is_intact(path)


@falls_without(
    "journal: a chain ends in a signature",
    Removal(
        AUDIT,
        "        for row in self.ends.values():\n            if row.signature is None:\n",
        "        for row in self.ends.values():\n            if not row.hash:\n",
    ),
)
def test_a_journal_without_signatures_is_detected(path: Path, journal: Journal) -> None:
    rewrite(path, lambda row: None)
    assert not is_intact(path)


@falls_without(
    "journal: a saved head is in it",
    Removal(AUDIT, "            self.check_head(head)\n", "            assert head is not None\n"),
)
@pytest.mark.parametrize("how", ["cut", "another past by the same key"])
def test_a_saved_head_detects_what_the_file_cannot_show(path: Path, journal: Journal, how: str) -> None:
    head = parse_head(export_head(path, "i1"))
    if how == "cut":
        tamper(path, "DELETE FROM events WHERE id > 6")
    else:
        rewrite(path, sign_with(SIGNER))
    assert is_intact(path)
    assert not is_intact(path, head)


@falls_without(
    "journal: the schema is ours",
    Removal(AUDIT, "    if tables != [TABLE]:\n", "    if not tables:\n"),
)
def test_a_trigger_that_drops_events_is_detected(path: Path, journal: Journal) -> None:
    tamper(
        path,
        "CREATE TRIGGER t BEFORE INSERT ON events WHEN new.name = 'Alarm' BEGIN SELECT RAISE(IGNORE); END",
    )
    assert not is_intact(path)


@falls_without(
    "journal: no forged past is signed",
    Removal("drive/journal.py", "        if ours is not None and not self._holds(ours):\n", "        if not chain:\n"),
    Removal("drive/journal.py", "        if not signed:\n", "        if signed and not chain:\n"),
)
@pytest.mark.parametrize("writer", ["the same", "the next"])
def test_a_forged_past_is_not_signed_by_later_events(path: Path, journal: Journal, writer: str) -> None:
    rewrite(path, lambda row: None)
    with closing(Journal(path, SIGNER)) as later:
        at = journal if writer == "the same" else later
        at.add("i1", "door", exchange("i1", 9))
        with pytest.raises(HostError):
            at.commit()
    assert not is_intact(path)
