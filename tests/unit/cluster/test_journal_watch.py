"""Tests of what a node's reports say about journals."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import anyio
import pytest

from hotdesk.cluster.journal_watch import JournalWatch
from hotdesk.cluster.report import MAX_JOURNALS, NodeReport, parse_report, write_report
from hotdesk.desk.keeper.outbox import Outbox
from hotdesk.drive.journal import FILE, Journal
from hotdesk.drive.signing import load_signer
from hotdesk.errors import KeeperError
from hotdesk.event import Revoked

REPORT = NodeReport("n1", "1" * 32, 2, 0, 0, ("container",), ())


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Return the folders of two tenants' keys, which have no events yet."""
    found = {name: tmp_path / name / "keys" for name in ("acme", "beta")}
    for each in found.values():
        each.mkdir(parents=True, mode=0o700)
    return found


def add(folder: Path) -> None:
    journal = Journal(folder / FILE, load_signer(folder))
    journal.add("desk", "door", Revoked("desk", "erp-token", "reason"))
    journal.commit()
    journal.close()


def age(folder: Path) -> None:
    """Pretend that a folder's files were written long ago."""
    for path in folder.iterdir():
        os.utime(path, (time.time() - 100,) * 2)


def test_a_journal_is_reported_once_after_each_change(folders: dict[str, Path]) -> None:
    watch = JournalWatch()
    assert watch.list_moved(folders) == ("acme", "beta"), "a server that connects may lack events"
    assert watch.list_moved(folders) == ()
    add(folders["beta"])
    age(folders["beta"])
    assert watch.list_moved(folders) == ("beta",)
    assert watch.list_moved(folders) == ()


def test_a_line_in_the_outbox_is_a_change(folders: dict[str, Path]) -> None:
    watch = JournalWatch()
    watch.list_moved(folders)
    Outbox(folders["acme"].parent).record("keeper", "Burnt", {"desk": "i1", "why": ""})
    assert watch.list_moved(folders) == ("acme",)


def test_a_journal_that_was_just_written_is_reported_again(folders: dict[str, Path]) -> None:
    """Another event may have the same time of change."""
    watch = JournalWatch()
    add(folders["acme"])
    now = time.time()
    os.utime(folders["acme"] / FILE, (now + 5, now + 5))
    watch.list_moved(folders)
    assert watch.list_moved(folders) == ("acme",)
    age(folders["acme"])
    assert watch.list_moved(folders) == ("acme",)
    assert watch.list_moved(folders) == ()


def test_no_journal_waits_forever_behind_others_that_change_all_the_time(tmp_path: Path) -> None:
    watch, reported = JournalWatch(), set[str]()
    folders = {f"t{number}": tmp_path for number in range(2 * MAX_JOURNALS + 1)}
    (tmp_path / FILE).touch()
    now = time.time()
    os.utime(tmp_path / FILE, (now + 100, now + 100))
    for _ in range(3):
        moved = watch.list_moved(folders)
        assert len(moved) == MAX_JOURNALS
        reported |= {*moved}
    assert reported == folders.keys()


def test_a_tenant_whose_door_waits_comes_first(tmp_path: Path) -> None:
    watch = JournalWatch()
    folders = {f"t{number}": tmp_path for number in range(MAX_JOURNALS + 1)}
    last = list(folders)[-1]
    watch.hurry(last)
    assert watch.list_moved(folders)[0] == last
    assert not watch.urgent


def test_a_report_for_a_waiting_door_examines_no_other_journal_until_a_second_has_passed(
    folders: dict[str, Path],
) -> None:
    watch = JournalWatch()
    watch.list_moved(folders)
    add(folders["beta"])
    watch.hurry("acme")
    assert watch.list_moved(folders) == ("acme",)
    watch.hurry("acme")
    time.sleep(1.1)
    assert {*watch.list_moved(folders)} == {"acme", "beta"}


async def test_a_report_is_sent_early_if_a_door_waits() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        watch = JournalWatch()
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(5):
                tasks.start_soon(watch.wait_readable, ours, 60.0)
                await anyio.sleep(0.01)
                watch.hurry("acme")
        assert not await watch.wait_readable(ours, 60.0), "still nothing was sent for it"
        watch.list_moved({"acme": Path("/nonexistent")})
        theirs.close()
        assert await watch.wait_readable(ours, 60.0)


def test_a_report_names_journals_only_to_a_server_that_follows_them() -> None:
    assert b"journals" not in write_report(REPORT)
    assert parse_report(write_report(REPORT)).journals is None


@pytest.mark.parametrize("journals", [["../x"], ["A"], [1], "acme", {}, ["a" * 33], ["acme"] * (MAX_JOURNALS + 1)])
def test_a_malformed_list_of_journals_is_refused(journals: object) -> None:
    line = json.loads(write_report(REPORT)) | {"journals": journals}
    with pytest.raises(KeeperError, match="malformed report"):
        parse_report(json.dumps(line).encode())
