"""Tests of exported journals: any change to any line is detected, without the machine that wrote them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.ledger import SIGNER
from tests.unit.test_event import ONE_OF_EACH

from hotdesk.drive.chain import parse_head
from hotdesk.drive.export import export, verify_export
from hotdesk.drive.journal import Journal, read, read_heads
from hotdesk.drive.journal_audit import AuditReport, verify
from hotdesk.drive.signing import load_public
from hotdesk.errors import BriefError
from hotdesk.event import as_dict, get_chain, list_kinds

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
JOB_CHAINS = ("i1", "i2")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "keys").mkdir(mode=0o700)
    place = tmp_path / "keys/journal.db"
    journal = Journal(place, SIGNER)
    for number, event in enumerate(ONE_OF_EACH):
        journal.add(get_chain(event), "owner", event)
        if number % 3 == 0:
            journal.commit()
    journal.commit()
    yield place
    journal.close()


def look(lines: list[str]) -> set[str]:
    return {fault.what for fault in verify_export(lines, SIGNER.public).faults}


def test_an_export_is_whole_by_itself(path: Path) -> None:
    lines = list(export(path))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert verify_export(lines, SIGNER.public) == AuditReport(5, len(ONE_OF_EACH), ())
    assert verify_export([f"{line}\n" for line in lines], SIGNER.public).faults == ()


def test_an_export_of_some_chains_has_them_whole_and_no_other(path: Path) -> None:
    lines = list(export(path, ["i2", "i1", "i-that-never-was"]))
    report = verify_export(lines, SIGNER.public)
    assert (report.chains, report.faults) == (2, ())
    assert {json.loads(line)["chain"] for line in lines[1:] if '"head"' not in line} == {"i1", "i2"}


@pytest.mark.parametrize("chains", [None, JOB_CHAINS])
def test_a_removed_line_is_detected(path: Path, chains: tuple[str, ...] | None) -> None:
    lines = list(export(path, chains))
    for place in range(1, len(lines)):
        assert look(lines[:place] + lines[place + 1 :]), lines[place]


@pytest.mark.parametrize("chains", [None, JOB_CHAINS])
def test_swapped_lines_are_detected(path: Path, chains: tuple[str, ...] | None) -> None:
    lines = list(export(path, chains))
    for place in range(1, len(lines) - 1):
        both_heads = all('"head"' in line for line in lines[place : place + 2])
        assert both_heads or look([*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]), lines[place]


def test_a_duplicate_line_is_detected(path: Path) -> None:
    lines = list(export(path))
    for place in range(1, len(lines)):
        assert look([*lines[: place + 1], *lines[place:]]), lines[place]


EDITS: dict[str, object] = {
    "id": 4711,
    "chain": "i2",
    "seq": 4711,
    "at": 1,
    "actor": "person",
    "event": "Alarm",
    "version": 2,
    "data": "{}",
    "hash": "00" * 32,
    "signature": "00" * 64,
}


@pytest.mark.sample(3)
@pytest.mark.slow
@pytest.mark.parametrize("field", EDITS)
def test_a_changed_field_of_any_line_is_detected(path: Path, field: str) -> None:
    lines = list(export(path))
    for place in range(1, len(lines)):
        told = json.loads(lines[place])
        value = "i1" if told.get(field) == EDITS[field] else EDITS[field]
        if "head" not in told and value != told.get(field):
            assert look([*lines[:place], json.dumps({**told, field: value}), *lines[place + 1 :]]), lines[place]


def test_events_moved_between_chains_are_detected(path: Path) -> None:
    lines = list(export(path))
    told = [json.loads(line) for line in lines]
    firsts = {each["chain"]: place for place, each in reversed(list(enumerate(told))) if "chain" in each}
    assert len(firsts) == 5
    one, other = firsts["i1"], firsts["i2"]
    for fields in (("chain",), ("chain", "seq"), ("data",), ("data", "event"), ("chain", "seq", "id")):
        changed = [dict(each) for each in told]
        for name in fields:
            changed[one][name], changed[other][name] = told[other][name], told[one][name]
        assert look([json.dumps(each) for each in changed]), fields


def test_a_changed_head_is_detected(path: Path) -> None:
    lines = list(export(path))
    for place, line in enumerate(lines):
        if '"head"' in line:
            assert look([*lines[:place], line.replace("i", "j"), *lines[place + 1 :]])
            assert look([*lines[:place], line[:-4] + '0"}', *lines[place + 1 :]])


def test_truncation_with_its_heads_is_detected_by_a_head_stored_elsewhere(path: Path) -> None:
    kept = read_heads(path)
    whole = list(export(path, ["i2"]))
    end = next(place for place, line in enumerate(whole) if "signature" in json.loads(line))  # where a commit ended
    lines, told = whole[: end + 1], json.loads(whole[end])
    cut = f"hotdesk-head 1 i2 {told['seq']} {told['hash']} {told['signature']}"
    lines.append(json.dumps({"head": cut}))
    assert verify_export(lines, SIGNER.public).faults == ()
    assert {fault.what for fault in verify_export(lines, SIGNER.public, kept).faults} == {"cut"}


def test_heads_of_chains_outside_of_an_export_are_skipped_and_counted(path: Path) -> None:
    kept = read_heads(path)
    report = verify_export(export(path, ["i2"]), SIGNER.public, kept)
    assert report == AuditReport(1, report.events, (), skipped_heads=len(kept) - 1)
    assert verify_export(export(path), SIGNER.public, kept).skipped_heads == 0
    whole = [line for line in export(path) if '"i1"' not in line and "head 1 i1 " not in line]
    assert "cut" in {fault.what for fault in verify_export(whole, SIGNER.public, kept).faults}


@pytest.mark.parametrize("lines", [[], ["{}"], ['{"hotdesk-journal": 2, "whole": true}'], ["not JSON"], ["[" * 9999]])
def test_an_invalid_export_is_named(lines: list[str]) -> None:
    with pytest.raises(BriefError, match="not an export of a journal"):
        verify_export(lines, SIGNER.public)


@pytest.mark.parametrize("line", ["", "{}", "[]", "x", '{"head": 5}', '{"id": true}', "{" * 9999])
def test_an_empty_or_malformed_line_is_detected(path: Path, line: str) -> None:
    lines = list(export(path))
    assert "unreadable" in look([*lines[:3], line, *lines[3:]])


DONE = {
    "edited": ["UPDATE events SET data = replace(data, '}', ' }') WHERE id = :row"],
    "removed": ["DELETE FROM events WHERE id = :row"],
    "moved to another chain": ["UPDATE events SET chain = chain || 'x' WHERE id = :row"],
    "swapped with the next": [
        "UPDATE events SET id = -1 WHERE id = :row",
        "UPDATE events SET id = :row WHERE id = :next",
        "UPDATE events SET id = :next WHERE id = -1",
    ],
}


@pytest.mark.sample(2)
@pytest.mark.slow
@pytest.mark.parametrize("act", DONE)
def test_any_change_to_any_row_of_a_journal_is_detected(path: Path, act: str) -> None:
    kept, count = read_heads(path), len(ONE_OF_EACH)
    with closing(sqlite3.connect(path)) as db:
        original = "\n".join(db.iterdump())
    for row in range(1, count + 1):
        place = path.parent / f"{row}.db"
        with closing(sqlite3.connect(place)) as db:
            db.executescript(original)
            for text in DONE[act]:
                db.execute(text, {"row": row, "next": row % count + 1})
            db.commit()
        assert verify(place, SIGNER.public, kept).faults, row


def test_a_journal_of_jobs_written_by_an_earlier_version_still_loads_and_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "journal.db"
    with closing(sqlite3.connect(place)) as db:
        db.executescript((GOLDEN / "journal-v1-jobs.sql").read_text())
    kept = [parse_head(line) for line in (GOLDEN / "journal-v1-jobs.heads").read_text().splitlines()]
    key = load_public(GOLDEN / "journal-v1.pub")
    assert verify(place, key, kept) == AuditReport(3, 36, ())
    rows = list(read(place))
    assert {row.name for row in rows} <= {kind.__name__ for kind in list_kinds()}
    for row in rows:
        told = json.loads(json.dumps(as_dict(row.read_event())))
        assert {name: told[name] for name in json.loads(row.data)} == json.loads(row.data)


def test_an_export_written_by_an_earlier_version_is_still_whole() -> None:
    lines = (GOLDEN / "export-v1.jsonl").read_text().splitlines()
    assert verify_export(lines, load_public(GOLDEN / "journal-v1.pub")) == AuditReport(3, 36, ())
