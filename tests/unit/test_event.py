"""Events as lines of a journal that is only ever added to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hotdesk.errors import HostError
from hotdesk.event import VERSION, Event, Journal, RootAct, RootActEnded, ignore, line

EVENTS: list[Event] = [
    RootAct("i1", "owner", ("sh", "-c", "a\nb\x1b\udcff"), "/", 0),
    RootAct("i1", "sudo", (), "", 3),
    RootActEnded("i1", 3, 255),
]


def test_every_event_is_one_line_of_plain_text() -> None:
    for event in EVENTS:
        written = line(event)
        assert written.endswith(b"\n")
        assert written.count(b"\n") == 1
        assert written[:-1].decode("ascii").isprintable()
        told = json.loads(written)
        assert (told["version"], told["event"]) == (VERSION, type(event).__name__)
        assert {name: told[name] for name in ("desk", "number")} == {"desk": event.desk, "number": event.number}


def test_a_journal_is_added_to_and_nobody_elses_to_read(tmp_path: Path) -> None:
    file = tmp_path / "made/journal.jsonl"
    for event in EVENTS:
        journal = Journal(file)
        journal.note(event)
        journal.close()
    assert [json.loads(text)["event"] for text in file.read_text().splitlines()] == [
        "RootAct",
        "RootAct",
        "RootActEnded",
    ]
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_journal_that_cannot_be_written_says_so() -> None:
    journal = Journal(Path("/dev/full"))
    with pytest.raises(HostError, match="noted"):
        journal.note(EVENTS[0])
    journal.close()


def test_nothing_is_taken_down_where_nothing_is_wanted() -> None:
    ignore(EVENTS[0])
