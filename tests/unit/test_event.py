"""Tests of events as JSON lines, and of reading them back."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from hotdesk.event import (
    Acted,
    Alarm,
    Amended,
    Answered,
    Asked,
    Burnt,
    Certified,
    Checkpointed,
    Decided,
    DriveChanged,
    Event,
    Exchange,
    Forgotten,
    HandedBack,
    ImageSigned,
    ItemEnded,
    ItemReviewed,
    ItemsAdded,
    ItemsBegun,
    ItemsOffered,
    ItemsUsed,
    JobBegun,
    JobBurnt,
    JobEnded,
    JobPaused,
    Kept,
    KeyChanged,
    MemoryDropped,
    MemoryKept,
    MemoryOffered,
    MemoryStaged,
    Observed,
    Opened,
    Pending,
    PilotEnded,
    Planned,
    Preflight,
    Proven,
    ReduceBegun,
    Reduced,
    RequestAdmitted,
    Rescoped,
    Resumed,
    Revoked,
    RolledBack,
    RootAct,
    RootActEnded,
    SentBack,
    StepBegun,
    StepEnded,
    Summed,
    SwarmBegun,
    SwarmCertified,
    Thought,
    TookOver,
    Used,
    VaultChanged,
    Verified,
    VisionAsked,
    VolumeChanged,
    WallProven,
    find_proof,
    from_json,
    get_chain,
    ignore,
    list_kinds,
    to_json,
)
from hotdesk.walls import WallProof

EVENTS: list[RootAct | RootActEnded] = [
    RootAct("i1", "owner", ("sh", "-c", "a\nb\x1b\udcff"), "/", 0),
    RootAct("i1", "sudo", (), "", 3),
    RootActEnded("i1", 3, 255),
]


def test_every_event_is_one_line_of_plain_text() -> None:
    for event in EVENTS:
        written = to_json(event)
        assert written.isascii()
        assert written.isprintable()
        assert from_json(type(event).__name__, written) == event


def test_without_a_sink_no_event_is_recorded() -> None:
    ignore(EVENTS[0])


ONE_OF_EACH: list[Event] = [
    *EVENTS,
    Opened("i1", "ab" * 32, ("allow erp.test",), ("erp-token@erp.test bearer",)),
    Proven("i1", ("no route",), ()),
    Burnt("i1", "done"),
    Exchange("i1", "", "allow", "erp.test", "GET", "https", "erp.test", 443, "/a?b", 200, 1, 2, 3, ("t in header a",)),
    RequestAdmitted("i1", "", "erp.test", "POST", "https", "erp.test", 443, "/a?b", 12),
    Alarm("i1", "leak", "erp-token", "evil.test"),
    Rescoped("i1", "ab" * 32, ("allow erp.test",), ("erp-token@erp.test bearer",), "ci", ("allow erp.test",)),
    Revoked("i1", "erp-token", "time"),
    Asked("i1", "1", "ab", "r", "GET", "h.test", "/", 60.0, "bitte \u202e\udcff"),
    Answered("i1", "1", "ab", "approved", "uid 0 pid 1"),
    TookOver("i1", 3, "uid 0 pid 4711"),
    HandedBack("i1", 3, "uid 0 pid 4711", 12.5, 4, 20, ""),
    Used("i1", "click", "done", 12, "coordinates", "the page had moved"),
    JobBegun("i2", "compare", "ab" * 32),
    StepBegun("i2", "read", "read it all", "i1"),
    StepEnded("i2", "read", "failed", "no such \x1b file", "i1"),
    SentBack("i2", "book", "a.xlsx", "cd" * 32, "ab" * 32),
    Certified("i2", "a.xlsx", "cd" * 32, "ef" * 32),
    Verified("i2", "i3", "a.xlsx", "cd" * 32, "xlsx", "passed", ("5 rows",)),
    Kept("i2", "a.xlsx", "cd" * 32, 4711),
    MemoryOffered("i2", "orders", ("memory/orders/files/parse.py@2",), ("cd" * 32,)),
    MemoryStaged("i2", "read", "file", "parse.py", "cd" * 32, 4711, "ab" * 32, ("input orders",)),
    MemoryKept("i2", "orders", "file", "parse.py", "cd" * 32, 4711, 3, "read", ("host erp.test",)),
    MemoryDropped("i2", "orders", "parse.py", "it contains the secret erp-token"),
    JobEnded("i2", "interrupted"),
    Planned("i2", "ab" * 32, ("read", "write"), "cd" * 32, 2, ("step write makes nothing",)),
    Preflight("i2", "ab" * 32, ("erp.test resolves",), ("erp-token does not mint",)),
    Pending("i2", "1a2b3c4d", "plan", "ab" * 32, "cd" * 32, 1_800_000_000_000, "refused", "read"),
    Decided("i2", "1a2b3c4d", "ab" * 32, "approved", "uid 0 pid 4711 for uid 1000", "cd" * 32),
    Thought("i2", "read", 3, "anthropic:m", "cd" * 32, 1200, 80, 1000, 4096, 950, 0.0123),
    VisionAsked("i2", "read", "anthropic:m", "cd" * 32, "done", 1500, 80, 0, 0, 400_000, 950, 0.0123),
    Acted("i2", "read", 7, "shell", "cd" * 32),
    Observed("i2", "read", 7, "failed", 12, "cd" * 32),
    Checkpointed("i2", "read", 7, "cd" * 32, 4096, 5, True),
    RolledBack("i2", "read", 1, "exit code 1"),
    Summed("i2", "read", "cd" * 32),
    Amended("i2", "ab" * 32, ("read", "ask", "write"), "cd" * 32, "read"),
    JobPaused("i2", "waits long for 1a2b3c4d"),
    Resumed("i2", "uid 0 pid 4712", "read", ("7 shell",)),
    JobBurnt("i2", ("desk i1",), ("a.xlsx in the drive, a deliverable",), ("mount /x",)),
    Forgotten("i2", "uid 0 pid 4713", "asked"),
    DriveChanged("i4", "reports/a.xlsx", "put", "uid 0 pid 1", "cd" * 32, 4711, 2),
    VaultChanged("i4", "erp-token", "removed", "Anna key 1a2b3c4d"),
    WallProven("i1", "gvisor", "sentry", True, "runsc 20240729", "kvm"),
    ImageSigned("i5", "base", "ab" * 32, "uid 0 pid 7"),
    VolumeChanged("i6", "i7", "made", "ci key 1a2b3c4d", "models", 10 << 30),
    KeyChanged("i5", "1a2b3c4d", "made", "uid 0 pid 7", "ci", "default", ("jobs",)),
    SwarmBegun("i5", 2, "ab" * 32, "cd" * 32),
    ItemsOffered("i5", "uid 0 pid 7"),
    ItemsAdded("i5", 3, "ab" * 32, "cd" * 32),
    ItemsBegun("i5", ("c-1", "c-2")),
    ItemsUsed("i5", ("c-1",), (100,), (0.25,), (3,)),
    ItemEnded("i5", "c-1", 0, "ab" * 32, "done", "i6", "i7", ("c-1.json",), ("cd" * 32,), (5,), ("json",), dollars=0.5),
    PilotEnded("i5", ("c-1",), 40.0, 10_000, 600.0),
    ReduceBegun("i5", "i8", "ab" * 32),
    Reduced("i5", "i8", ("register.xlsx",), ("ab" * 32,)),
    ItemReviewed("i5", "c-1", "right", "uid 0 pid 7"),
    SwarmCertified("i5", "ab" * 32, "cd" * 32),
]


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_written(event: Event) -> None:
    written = to_json(event)
    assert written.isascii()
    assert written.isprintable()
    assert from_json(type(event).__name__, written) == event


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(list_kinds())


def test_what_a_keeper_proved_is_read_from_either_event() -> None:
    proof = WallProof("gvisor", "sentry", True, "runsc 20240729", "kvm")
    assert find_proof(WallProven("i1", **asdict(proof))) == proof
    assert find_proof(Opened("i1", "", (), (), **asdict(proof))) == proof
    older = from_json("Opened", '{"desk":"i1","scope":"","rules":[],"grants":[],"by":"x","image":"base"}')
    assert (older, find_proof(older)) == (Opened("i1", "", (), (), "x", "base"), None)


def test_an_event_is_in_the_chain_of_its_job_or_else_of_its_desk() -> None:
    assert get_chain(StepBegun("i2", "read", "read it all", "i1")) == "i2"
    assert get_chain(Burnt("i1", "done")) == "i1"


def test_a_field_that_has_a_default_may_be_missing() -> None:
    assert from_json("Alarm", '{"desk":"i1","what":"leak","secret":"s","host":"h"}') == Alarm("i1", "leak", "s", "h")


@pytest.mark.parametrize(
    ("name", "data", "version"),
    [
        ("Burnt", '{"desk":"i1"}', 1),
        ("Burnt", '{"desk":"i1","why":"x","more":1}', 1),
        ("Burnt", '{"desk":1,"why":"x"}', 1),
        ("Burnt", '["i1","x"]', 1),
        ("Burnt", "no JSON", 1),
        ("Burnt", '{"desk":"i1","why":"x"}', 2),
        ("Event", "{}", 1),
        ("Alarm", '{"desk":"i1","what":"other","secret":"s","host":"h"}', 1),
        ("Proven", '{"desk":"i1","held":[1],"failed":[]}', 1),
        ("Proven", '{"desk":"i1","held":"text","failed":[]}', 1),
        ("RootActEnded", '{"desk":"i1","number":true,"exit_code":0}', 1),
        ("RootActEnded", '{"desk":"i1","number":1.5,"exit_code":0}', 1),
    ],
)
def test_an_event_no_known_version_wrote_is_refused(name: str, data: str, version: int) -> None:
    with pytest.raises(ValueError, match=r"unknown event|malformed event|Expecting value"):
        from_json(name, data, version)
