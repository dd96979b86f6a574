"""Tests of the journal: events are written completely, chained and signed, and later changes are detected."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.tampered_journal import rewrite, tamper

from hotdesk.drive.chain import Head, Row, compute_digest, encode_statement, parse_head
from hotdesk.drive.journal import Journal, export_head, follow, read, read_heads
from hotdesk.drive.journal_audit import MAX_FAULTS, AuditReport, verify
from hotdesk.drive.signing import Signer, compute_fingerprint, load_public, load_signer
from hotdesk.drive.table import SELECT
from hotdesk.errors import BriefError, HostError
from hotdesk.event import Alarm, Answered, Burnt, Event, Exchange, Opened, Revoked

SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(b"not a secret: for golden files.."))
STRANGER = Signer(Ed25519PrivateKey.generate())
GOLDEN = Path(__file__).parents[2] / "golden"
SOURCE = os.pathsep.join(filter(None, sys.path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "keys").mkdir(mode=0o700)
    return tmp_path / "keys/journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    made = Journal(path, SIGNER)
    yield made
    made.close()


def exchange(desk: str, number: int = 0) -> Event:
    return Exchange(desk, "", "allow", "erp.test", "GET", "https", "erp.test", 443, f"/{number}", 200, 10, 20, 3)


def fill(journal: Journal) -> None:
    """Write three commits over three chains: eleven events."""
    for turn in range(3):
        journal.add("i1", "door", exchange("i1", turn))
        journal.add("i2", "door", exchange("i2", turn))
        journal.add("i1", "door", Revoked("i1", "erp-token", f"turn {turn}"))
        if turn:
            journal.add("job.7", "owner", Burnt("i3", "done"))
        journal.commit()


def look(path: Path, *since: Head) -> set[str]:
    return {fault.what for fault in verify(path, SIGNER.public, since).faults}


def test_events_come_back_in_order_with_their_actor(path: Path, journal: Journal) -> None:
    fill(journal)
    rows = list(read(path))
    assert [row.id for row in rows] == list(range(1, 12))
    assert [(row.chain, row.seq) for row in rows if row.chain == "i1"] == [("i1", seq) for seq in range(1, 7)]
    assert rows[0].read_event() == exchange("i1", 0)
    assert {(row.chain, row.actor) for row in rows} == {("i1", "door"), ("i2", "door"), ("job.7", "owner")}
    assert verify(path, SIGNER.public) == AuditReport(3, 11, ())


def test_one_signature_a_chain_and_commit(path: Path, journal: Journal) -> None:
    fill(journal)
    signed = [(row.chain, row.seq) for row in read(path) if row.signature is not None]
    assert signed == [("i2", 1), ("i1", 2), ("i2", 2), ("i1", 4), ("job.7", 1), ("i2", 3), ("i1", 6), ("job.7", 2)]


def test_uncommitted_events_are_not_stored(path: Path, journal: Journal) -> None:
    journal.add("i1", "door", exchange("i1"))
    assert journal.waiting == 1
    assert list(read(path)) == []
    journal.commit()
    journal.commit()
    assert journal.waiting == 0
    assert len(list(read(path))) == 1


def test_rows_are_found_by_chain_desk_place_and_number(path: Path, journal: Journal) -> None:
    fill(journal)
    journal.add("i1", "door", Burnt("i3", 'it said "desk":"i2" and died'))
    journal.commit()
    assert {row.chain for row in read(path, "i2")} == {"i2"}
    assert [row.id for row in read(path, desk="i3")] == [7, 11, 12]
    assert [row.id for row in read(path, desk="i2")] == [2, 5, 9]
    assert [row.id for row in read(path, after=10)] == [11, 12]
    assert [row.id for row in read(path, limit=3)] == [10, 11, 12]
    assert [row.id for row in read(path, "i1", limit=2)] == [10, 12]
    assert [row.id for row in read(path, limit=99)] == list(range(1, 13))
    assert list(read(path, limit=0)) == []


def test_more_rows_than_are_read_at_a_time_come_whole(path: Path, journal: Journal) -> None:
    for number in range(1234):
        journal.add("i1", "door", exchange("i1", number))
    journal.commit()
    assert [row.seq for row in read(path)] == list(range(1, 1235))
    assert [row.seq for row in read(path, limit=1000)] == list(range(235, 1235))
    assert verify(path, SIGNER.public) == AuditReport(1, 1234, ())


@pytest.mark.parametrize(("limit", "shown"), [(None, 11), (3, 3), (0, 0)])
def test_following_gives_what_is_there_and_then_what_comes(
    path: Path, journal: Journal, limit: int | None, shown: int
) -> None:
    fill(journal)
    rows = follow(path, limit=limit, every=0.001)
    assert [row.id for row in islice(rows, shown) if row] == list(range(12 - shown, 12))
    assert next(rows) is None
    assert next(rows) is None
    journal.add("i9", "door", exchange("i9"))
    journal.commit()
    row = next(rows)
    assert row is not None
    assert (row.id, row.chain) == (12, "i9")
    assert next(rows) is None
    rows.close()


def test_following_gives_once_what_comes_while_the_past_is_read(path: Path, journal: Journal) -> None:
    for number in range(600):
        journal.add("i1", "door", exchange("i1", number))
    journal.commit()
    rows = follow(path, every=0.001)
    next(rows)
    journal.add("i9", "door", exchange("i9"))
    journal.commit()
    ids = [row.id for row in islice(rows, 602) if row]
    rows.close()
    assert ids == list(range(2, 602))


FIELDS = {
    "id": "id = 99",
    "chain": "chain = 'i2x'",
    "seq": "seq = 99",
    "at": "at = at + 1",
    "actor": "actor = 'person'",
    "name": "name = 'Alarm'",
    "version": "version = 2",
    "data": "data = replace(data, 'i', 'j')",
    "hash": "hash = zeroblob(32)",
    "signature": "signature = zeroblob(64)",
    "signature taken off": "signature = NULL",
}
PLACES = {"first": "id = 1", "middle": "id = 6", "signed": "id = 5", "last": "id = 11"}


UNSIGNED = {("signature taken off", "first"), ("signature taken off", "middle")}
CHANGES = [(field, place) for field in FIELDS for place in PLACES if (field, place) not in UNSIGNED]


@pytest.mark.slow
@pytest.mark.parametrize(("field", "place"), CHANGES)
def test_a_changed_field_of_any_event_is_detected(path: Path, journal: Journal, field: str, place: str) -> None:
    fill(journal)
    tamper(path, " ".join(["UPDATE events SET", FIELDS[field], "WHERE", PLACES[place]]))
    assert look(path)


@pytest.mark.parametrize(
    "column", ["id", "chain", "seq", "at", "actor", "name", "version", "data", "hash", "signature"]
)
def test_every_column_is_among_the_changes_tried(column: str) -> None:
    assert column in FIELDS
    assert column in SELECT


REST = "at, actor, name, version, data, hash, signature FROM events"
ATTACKS: dict[str, tuple[list[str], set[str]]] = {
    "removed in the middle": (["DELETE FROM events WHERE id = 3"], {"gap"}),
    "removed and numbers closed": (
        [
            "DELETE FROM events WHERE chain = 'i1' AND seq = 3",
            "UPDATE events SET seq = seq - 1 WHERE chain = 'i1' AND seq > 3",
        ],
        {"gap", "changed", "signature"},
    ),
    "removed at the beginning": (["DELETE FROM events WHERE id = 1"], {"gap"}),
    "a whole chain removed": (["DELETE FROM events WHERE chain = 'i2'"], {"gap"}),
    "a whole chain removed and the rest numbered anew": (
        [
            "DELETE FROM events WHERE chain = 'i2'",
            "UPDATE events SET id = (SELECT count(*) FROM events AS o WHERE o.id <= events.id)",
        ],
        {"changed"},
    ),
    "two swapped in the file": (
        [
            "UPDATE events SET id = -1 WHERE id = 1",
            "UPDATE events SET id = 1 WHERE id = 3",
            "UPDATE events SET id = 3 WHERE id = -1",
        ],
        {"gap", "order"},
    ),
    "two swapped in the chain": (
        [
            "UPDATE events SET seq = -1 WHERE chain = 'i1' AND seq = 1",
            "UPDATE events SET seq = 1 WHERE chain = 'i1' AND seq = 3",
            "UPDATE events SET seq = 3 WHERE chain = 'i1' AND seq = -1",
        ],
        {"gap", "order"},
    ),
    "one put in at the end": (
        ["INSERT INTO events SELECT 12, 'i1', 7, " + REST + " WHERE id = 10"],
        {"changed", "signature"},
    ),
    "a chain of its own put in": (
        ["INSERT INTO events SELECT 12, 'i8', 1, " + REST + " WHERE id = 1"],
        {"changed", "unsigned"},
    ),
    "the end cut within a commit": (["DELETE FROM events WHERE id > 8"], {"unsigned"}),
    "a text that is none": (["UPDATE events SET data = CAST(x'ff' AS TEXT) WHERE id = 2"], {"changed"}),
    "a trigger": (
        ["CREATE TRIGGER t BEFORE INSERT ON events WHEN new.name = 'Alarm' BEGIN SELECT RAISE(IGNORE); END"],
        {"shape"},
    ),
    "another table": (["CREATE TABLE more (x)"], {"shape"}),
    "no table": (["DROP TABLE events"], {"shape", "unreadable"}),
    "a table of anything": (
        [
            "CREATE TABLE e AS SELECT * FROM events",
            "DROP TABLE events",
            "ALTER TABLE e RENAME TO events",
            "UPDATE events SET seq = 'two' WHERE id = 2",
        ],
        {"shape", "unreadable"},
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_changes_of_a_journal_are_detected(path: Path, journal: Journal, attack: str) -> None:
    fill(journal)
    statements, found = ATTACKS[attack]
    tamper(path, *statements)
    assert found <= look(path)


def test_a_journal_rewritten_without_the_key_is_detected(path: Path, journal: Journal) -> None:
    fill(journal)
    rewrite(path, lambda row: row.signature)
    assert look(path) == {"signature"}


def test_a_journal_signed_with_another_key_is_detected(path: Path, journal: Journal) -> None:
    fill(journal)
    rewrite(path, lambda row: STRANGER.sign(encode_statement(row.chain, row.seq, row.hash)))
    assert look(path) == {"signature"}
    assert verify(path, STRANGER.public).faults == ()


def test_a_journal_without_signatures_is_detected(path: Path, journal: Journal) -> None:
    fill(journal)
    rewrite(path, lambda row: None)
    assert look(path) == {"unsigned"}


@pytest.mark.parametrize("reopened", [False, True])
def test_a_forged_past_is_not_signed_by_later_commits(path: Path, journal: Journal, reopened: bool) -> None:
    fill(journal)
    rewrite(path, lambda row: None)
    writer = Journal(path, SIGNER) if reopened else journal
    writer.add("i1", "door", exchange("i1"))
    with pytest.raises(HostError, match=r"without a valid signature|removed or changed"):
        writer.commit()
    assert len(list(read(path))) == 11
    if reopened:
        writer.close()


def test_a_writer_notices_that_the_end_was_cut_behind_its_back(path: Path, journal: Journal) -> None:
    fill(journal)
    tamper(path, "DELETE FROM events WHERE id > 7")
    journal.add("i1", "door", exchange("i1"))
    with pytest.raises(HostError, match="removed or changed"):
        journal.commit()
    assert len(list(read(path))) == 7


def test_a_writer_that_refused_a_chain_continues_with_others(path: Path, journal: Journal) -> None:
    fill(journal)
    tamper(path, "DELETE FROM events WHERE id > 7")
    journal.add("i1", "door", exchange("i1"))
    with pytest.raises(HostError, match="removed or changed"):
        journal.commit()
    other = Journal(path, SIGNER)
    other.add("i8", "door", exchange("i8"))
    other.commit()
    other.close()
    journal.discard()
    journal.add("i9", "door", exchange("i9"))
    journal.commit()
    assert [row.chain for row in read(path, after=7)] == ["i8", "i9"]


def test_truncation_is_detected_by_a_stored_head(path: Path, journal: Journal) -> None:
    fill(journal)
    kept = [parse_head(export_head(path, chain)) for chain in ("i1", "i2", "job.7")]
    assert look(path, *kept) == set()
    tamper(path, "DELETE FROM events WHERE id > 7")
    assert look(path) == set()
    assert look(path, kept[0]) == {"cut"}
    tamper(path, "DELETE FROM events")
    assert look(path) == set()
    assert look(path, kept[2]) == {"cut"}


def test_another_past_by_the_same_key_is_detected_by_a_stored_head(path: Path, journal: Journal) -> None:
    fill(journal)
    kept = parse_head(export_head(path, "i1"))
    rewrite(path, lambda row: SIGNER.sign(encode_statement(row.chain, row.seq, row.hash)))
    assert look(path) == set()
    assert look(path, kept) == {"head"}


def test_a_head_that_never_existed_is_detected(path: Path, journal: Journal) -> None:
    fill(journal)
    kept = parse_head(export_head(path, "i1"))
    for never in (
        replace(kept, seq=99),
        replace(kept, hash=bytes(32)),
        replace(kept, chain="i2"),
        replace(kept, signature=bytes(64)),
        replace(kept, signature=STRANGER.sign(encode_statement(kept.chain, kept.seq, kept.hash))),
    ):
        assert look(path, never) == {"head"}


def test_a_head_inside_a_chain_still_holds_when_it_has_grown(path: Path, journal: Journal) -> None:
    fill(journal)
    kept = parse_head(export_head(path, "i1"))
    fill(journal)
    assert look(path, kept) == set()
    assert {head.chain: head.seq for head in read_heads(path)} == {"i1": 12, "i2": 6, "job.7": 4}
    assert journal.list_heads() == read_heads(path)
    assert str(journal.find_head("i1")) == export_head(path, "i1")
    assert journal.find_head("i77") is None


def test_a_head_is_one_line_and_only_a_whole_one_is_read(path: Path, journal: Journal) -> None:
    fill(journal)
    line = export_head(path, "i1")
    assert line.startswith("hotdesk-head 1 i1 6 ")
    assert str(parse_head(f"{line}\n")) == line
    for wrong in (
        "",
        line[:-1],
        line + "0",
        line.replace("head 1", "head 2"),
        line.replace(" 6 ", " 06 "),
        line.upper(),
    ):
        with pytest.raises(BriefError, match="not a valid head of a chain"):
            parse_head(wrong)
    with pytest.raises(BriefError, match="no chain"):
        export_head(path, "i77")


def test_faults_are_listed_up_to_a_number(path: Path, journal: Journal) -> None:
    for number in range(MAX_FAULTS + 500):
        journal.add("i1", "door", exchange("i1", number))
    journal.commit()
    tamper(path, "UPDATE events SET at = at + 1")
    report = verify(path, SIGNER.public)
    assert (len(report.faults), report.events) == (MAX_FAULTS, MAX_FAULTS)


def test_a_damaged_index_is_detected_even_if_every_event_is_there(path: Path, journal: Journal) -> None:
    fill(journal)
    journal.close()
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE type = 'index'").fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size + 3)
        file.write(b"\0\0")  # how many entries it has
    report = verify(path, SIGNER.public)
    assert (report.events, {fault.what for fault in report.faults}) == (11, {"unreadable"})


def test_no_two_events_hash_alike_by_moving_a_border() -> None:
    row = Row(1, "i1", 1, 5, "door", "Alarm", 1, "{}", b"", None)
    moved = [replace(row, chain="i1d", actor="oor"), replace(row, id=11, seq=1), replace(row, at=51, version=1)]
    hashes = {compute_digest(each, None) for each in [row, *moved]}
    assert len(hashes) == 4
    signed = replace(row, signature=b"x")
    assert compute_digest(row, row) != compute_digest(row, signed)
    assert compute_digest(row, replace(row, hash=b"ab", signature=b"c")) != compute_digest(
        row, replace(row, hash=b"a", signature=b"bc")
    )


@pytest.mark.parametrize(
    ("chain", "actor"), [("", "door"), ("a b", "door"), ("../x", "door"), ("i1", ""), ("i1", "A b")]
)
def test_an_invalid_name_is_refused(journal: Journal, chain: str, actor: str) -> None:
    with pytest.raises(BriefError):
        journal.add(chain, actor, exchange("i1"))
    assert journal.waiting == 0


def test_an_event_too_large_is_refused(journal: Journal) -> None:
    with pytest.raises(BriefError, match="the limit of an event"):
        journal.add("i1", "door", Burnt("i1", "x" * (1 << 20)))
    assert journal.waiting == 0


WRITE = """
import sys
from pathlib import Path
from hotdesk.drive.journal import Journal
from hotdesk.drive.signing import load_signer
from hotdesk.event import Burnt
path = Path(sys.argv[1])
journal = Journal(path, load_signer(path.parent))
for number in range(40):
    for chain in ("shared", sys.argv[2]):
        journal.add(chain, "door", Burnt("i1", f"{sys.argv[2]} {number}"))
    journal.commit()
"""


@pytest.mark.slow
def test_concurrent_writers_neither_fork_a_chain_nor_lose_an_event(path: Path) -> None:
    argv = [sys.executable, "-c", WRITE, str(path)]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    writers = [subprocess.Popen([*argv, f"own{number}"], env=env) for number in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    report = verify(path, load_public(path.parent / "signing.pub"))
    assert report == AuditReport(5, 320, ())
    assert [row.seq for row in read(path, "shared")] == list(range(1, 161))


@pytest.mark.slow
def test_a_journal_can_be_created_concurrently(path: Path) -> None:
    together, failed = threading.Barrier(8), []

    def open_often() -> None:
        try:
            for turn in range(150):
                together.wait(30)
                Journal(path.with_name(f"{turn}.db"), SIGNER).close()
        except (HostError, threading.BrokenBarrierError) as e:
            failed.append(e)
            together.abort()

    openers = [threading.Thread(target=open_often) for _ in range(8)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join(60)
    assert failed == []


def test_two_writers_of_one_chain_take_turns(path: Path, journal: Journal) -> None:
    other = Journal(path, SIGNER)
    for writer in (journal, other, journal, other):
        writer.add("i1", "door", exchange("i1"))
        writer.commit()
    other.close()
    assert verify(path, SIGNER.public) == AuditReport(1, 4, ())


def test_a_writer_that_returns_to_a_chain_sees_what_another_wrote(path: Path, journal: Journal) -> None:
    other = Journal(path, SIGNER)
    for writer, chain in (
        (journal, "i1"),
        (other, "i1"),
        (journal, "i2"),
        (journal, "i1"),
        (other, "i2"),
        (journal, "i2"),
    ):
        writer.add(chain, "door", exchange(chain))
        writer.commit()
    other.close()
    assert verify(path, SIGNER.public) == AuditReport(2, 6, ())


def test_a_writer_that_returns_to_a_chain_detects_truncation(path: Path, journal: Journal) -> None:
    fill(journal)
    tamper(path, "DELETE FROM events WHERE chain = 'i1' AND seq > 2")
    journal.add("i2", "door", exchange("i2"))
    journal.commit()
    journal.add("i1", "door", exchange("i1"))
    with pytest.raises(HostError, match="removed or changed"):
        journal.commit()


def test_a_writer_with_another_key_does_not_continue_with_our_chain(path: Path, journal: Journal) -> None:
    fill(journal)
    other = Journal(path, STRANGER)
    other.add("i1", "door", exchange("i1"))
    with pytest.raises(HostError, match="without a valid signature"):
        other.commit()
    other.close()
    assert look(path) == set()


def test_a_writer_refuses_a_file_of_another_shape(path: Path, journal: Journal) -> None:
    fill(journal)
    tamper(path, "CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END")
    with pytest.raises(HostError, match="schema"):
        Journal(path, SIGNER)


def test_a_full_disk_is_named_and_leaves_nothing_half_written(path: Path, journal: Journal) -> None:
    fill(journal)
    pages = journal._db.execute("PRAGMA page_count").fetchone()[0]
    journal._db.execute(f"PRAGMA max_page_count={pages + 2}")
    for number in range(200):
        journal.add("i1", "door", exchange("i1", number))
    for _ in range(2):
        with pytest.raises(HostError, match=r"disk is full.*"):
            journal.commit()
    assert verify(path, SIGNER.public) == AuditReport(3, 11, ())
    assert journal.waiting == 200
    journal._db.execute("PRAGMA max_page_count=100000")
    journal.commit()
    assert verify(path, SIGNER.public) == AuditReport(3, 211, ())


def test_a_commit_is_on_disk_when_it_returns(journal: Journal) -> None:
    assert journal._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,)


def test_a_killed_writer_leaves_whole_commits(path: Path) -> None:
    script = WRITE.replace("range(40)", "range(10**9)").replace(".commit()", ".commit(); print('x', flush=True)")
    argv = [sys.executable, "-c", script, str(path), "own"]
    writer = subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(30)]
    writer.kill()
    told += writer.stdout.readlines()
    writer.wait(10)
    writer.stdout.close()
    report = verify(path, load_public(path.parent / "signing.pub"))
    assert report.faults == ()
    assert report.events >= 2 * len(told)
    assert report.events % 2 == 0


@pytest.mark.parametrize("made", ["link", "folder", "fifo"])
def test_a_journal_that_is_not_a_plain_file_is_refused(path: Path, tmp_path: Path, made: str) -> None:
    match made:
        case "link":
            path.symlink_to(tmp_path / "x")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
    with pytest.raises(HostError, match="not a regular file"):
        Journal(path, SIGNER)
    with pytest.raises(HostError, match="not a regular file"):
        verify(path, SIGNER.public)


@pytest.mark.parametrize("beside", ["-wal", "-shm"])
def test_no_link_beside_the_journal_is_followed(path: Path, tmp_path: Path, beside: str) -> None:
    Journal(path, SIGNER).close()
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    path.with_name(path.name + beside).symlink_to(victim)
    for act in (lambda: list(read(path)), lambda: Journal(path, SIGNER)):
        with pytest.raises(HostError, match="cannot be used"):
            act()
    assert victim.read_bytes() == b""


def test_a_file_that_is_not_a_journal_is_named(path: Path) -> None:
    path.write_bytes(b"not SQLite at all, by any means" * 100)
    for act in (lambda: verify(path, SIGNER.public), lambda: list(read(path)), lambda: Journal(path, SIGNER)):
        with pytest.raises(HostError, match="cannot be used"):
            act()
    path.unlink()
    with pytest.raises(BriefError, match="no journal"):
        verify(path, SIGNER.public)


def test_the_first_caller_creates_the_signing_key_and_others_get_the_same(path: Path) -> None:
    folder = path.parent
    before = os.umask(0o077)
    try:
        first, second = load_signer(folder), load_signer(folder)
    finally:
        os.umask(before)
    assert (
        compute_fingerprint(first.public)
        == compute_fingerprint(second.public)
        == compute_fingerprint(load_public(folder / "signing.pub"))
    )
    modes = {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}
    assert modes == {"signing.key": 0o600, "signing.pub": 0o644}
    (folder / "signing.key").chmod(0o640)
    with pytest.raises(HostError, match="other users can access"):
        load_signer(folder)


def test_an_invalid_signing_key_and_a_public_half_of_another_are_named(path: Path) -> None:
    folder = path.parent
    load_signer(folder)
    (folder / "signing.key").rename(folder / "old.key")
    with pytest.raises(HostError, match="not the public key of"):
        load_signer(folder)
    (folder / "signing.key").write_text("no key")
    with pytest.raises(HostError, match="not an Ed25519 key"):
        load_signer(folder)
    with pytest.raises(BriefError, match="not an Ed25519 public key"):
        load_public(folder / "signing.key")
    with pytest.raises(BriefError, match="cannot be read"):
        load_public(folder / "missing")


GOLDEN_EVENTS: list[tuple[str, str, Event]] = [
    ("i1", "owner", Opened("i1", "ab" * 32, ("allow erp.test",), ("erp-token@erp.test bearer",))),
    (
        "i1",
        "door",
        Exchange("i1", "s", "deny", "r", "GET", "https", "h.test", 443, "/a?b", 403, 1, 2, 3, ("t in a",), "n"),
    ),
    ("job.7", "owner", Answered("i1", "1", "ab", "approved", "uid 0 pid 1")),
    ("i1", "door", Alarm("i1", "leak", "erp-token", "h\u202e\udcff.test", 'quote " and ä')),
    ("i1", "keys", Burnt("i1", "done")),
]


def test_an_old_journal_still_loads_and_is_whole(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript((GOLDEN / "journal-v1.sql").read_text())
    kept = [parse_head(line) for line in (GOLDEN / "journal-v1.heads").read_text().splitlines()]
    assert len(kept) == 2
    assert verify(path, load_public(GOLDEN / "journal-v1.pub"), kept) == AuditReport(2, 5, ())
    assert [(row.chain, row.actor, row.read_event()) for row in read(path)] == GOLDEN_EVENTS
    path.chmod(0o600)
    journal = Journal(path, SIGNER)
    journal.add("i1", "keys", Burnt("i1", "again"))
    journal.commit()
    journal.close()
    assert verify(path, load_public(GOLDEN / "journal-v1.pub"), kept) == AuditReport(2, 6, ())


def test_files_root_creates_belong_to_the_folders_owner(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("giving a file away needs root: run the tests with sudo", pytrace=False)
    os.chown(path.parent, 70001, 70001)

    def owners() -> dict[str, tuple[int, int]]:
        return {file.name: (file.stat().st_uid, file.stat().st_mode & 0o777) for file in path.parent.iterdir()}

    journal = Journal(path, load_signer(path.parent))
    fill(journal)
    assert {"journal.db-wal", "journal.db-shm"} <= owners().keys()
    assert {owner for owner, _ in owners().values()} == {70001}
    assert {mode for name, (_, mode) in owners().items() if name != "signing.pub"} == {0o600}
    journal.close()
    rows = read(path)
    next(rows)
    assert {"journal.db-wal", "journal.db-shm"} <= owners().keys()
    assert {owner for owner, _ in owners().values()} == {70001}
    rows.close()
