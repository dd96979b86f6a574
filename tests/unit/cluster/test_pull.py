"""Tests of the events of nodes that a server stores."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from tests.conftest import settings_in

from hotdesk.cluster.pull import MAX_KEYS, MIN_KEY_AGE_S, PulledJournal, parse_pulled, wait_opened
from hotdesk.desk.seam import as_id
from hotdesk.drive.chain import Row
from hotdesk.drive.export import as_line
from hotdesk.drive.journal import FILE, Journal, read
from hotdesk.drive.signing import PUBLIC, load_signer
from hotdesk.errors import HostError, KeeperError
from hotdesk.event import Opened, Revoked
from hotdesk.linux.private_files import MAX_FILE_BYTES


class FakeNode:
    """A node's journal, and its answers to a server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)

    def add(self, count: int) -> None:
        journal = Journal(self.folder / FILE, load_signer(self.folder))
        for number in range(count):
            journal.add("desk", "door", Revoked("desk", "erp-token", f"reason {number}"))
            journal.commit()
        journal.close()

    def answer(self, after: int) -> dict[str, object]:
        lines = [as_line(row) for row in read(self.folder / FILE, after=after)]
        return {"key": (self.folder / PUBLIC).read_text(), "events": lines}


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    found = FakeNode(tmp_path / "node")
    found.add(3)
    return found


def pull(pulled: PulledJournal, node: FakeNode) -> int:
    return pulled.take(node.answer(pulled.read_last_number()))


def read_numbers(folder: Path) -> list[str]:
    return [line[:8] for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def test_events_of_a_known_node_are_stored_after_a_restart(tmp_path: Path, node: FakeNode) -> None:
    assert pull(PulledJournal(tmp_path / "n1"), node) == 3
    node.add(2)
    restarted = PulledJournal(tmp_path / "n1")
    assert restarted.read_last_number() == 3
    assert pull(restarted, node) == 2
    assert pull(restarted, node) == 0
    assert pull(PulledJournal(tmp_path / "n1"), node) == 0
    assert read_numbers(tmp_path / "n1") == [f'{{"id": {number}' for number in range(1, 6)]


@pytest.mark.parametrize("cut", [1, 40])
def test_a_last_line_that_was_not_written_completely_is_fetched_again(tmp_path: Path, node: FakeNode, cut: int) -> None:
    pull(PulledJournal(tmp_path / "n1"), node)
    (path,) = (tmp_path / "n1").glob("*.jsonl")
    os.truncate(path, path.stat().st_size - cut)
    restarted = PulledJournal(tmp_path / "n1")
    assert restarted.read_last_number() == 2
    assert pull(restarted, node) == 1
    assert read_numbers(tmp_path / "n1") == ['{"id": 1', '{"id": 2', '{"id": 3']


def test_a_node_with_another_key_is_fetched_from_its_beginning(tmp_path: Path, node: FakeNode) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    pull(pulled, node)
    shutil.rmtree(node.folder)
    node.folder.mkdir(mode=0o700)
    node.add(4)
    assert pull(pulled, node) == 0
    assert pulled.read_last_number() == 0
    assert pull(pulled, node) == 4
    assert len(list((tmp_path / "n1").glob("*.jsonl"))) == 2


def restart(node: FakeNode, count: int = 1) -> None:
    """Start an agent whose state is empty, and so signs with another key."""
    shutil.rmtree(node.folder)
    node.folder.mkdir(mode=0o700)
    node.add(count)


def fill(folder: Path, age: float) -> None:
    """Add the files of so many earlier keys that no other fits, the oldest first."""
    for number in range(MAX_KEYS - len(list(folder.glob("*.jsonl")))):
        (path := folder / f"{number}.jsonl").write_text("an earlier key's events\n")
        os.utime(path, (time.time() - age + number,) * 2)


def test_the_oldest_keys_of_an_agent_that_is_started_often_are_moved_away_whole(tmp_path: Path, node: FakeNode) -> None:
    folder = tmp_path / "n1"
    pulled = PulledJournal(folder)
    pull(pulled, node)
    fill(folder, 2 * MIN_KEY_AGE_S)
    for number in range(3):
        restart(node)
        assert [pull(pulled, node) for _ in range(2)] == [0, 1]
        assert len(list(folder.glob("*.jsonl"))) == MAX_KEYS
        assert (folder / f"earlier/{number}.jsonl").read_text() == "an earlier key's events\n"
    node.add(1)
    assert pull(PulledJournal(folder), node) == 1


def test_the_key_in_use_is_not_moved_away(tmp_path: Path, node: FakeNode) -> None:
    folder = tmp_path / "n1"
    pulled = PulledJournal(folder)
    pull(pulled, node)
    (path,) = folder.glob("*.jsonl")
    fill(folder, 2 * MIN_KEY_AGE_S)
    os.utime(path, (1, 1))
    restart(node)
    assert [pull(pulled, node) for _ in range(2)] == [0, 1]
    assert path.exists()


def test_keys_that_change_too_quickly_are_not_moved_away(tmp_path: Path, node: FakeNode) -> None:
    folder = tmp_path / "n1"
    pulled = PulledJournal(folder)
    pull(pulled, node)
    fill(folder, MIN_KEY_AGE_S / 2)
    restart(node)
    with pytest.raises(KeeperError, match="100 different keys within a day"):
        pull(pulled, node)
    assert not (folder / "earlier").exists()


def test_the_file_of_an_earlier_key_that_is_used_again_is_moved_back(tmp_path: Path, node: FakeNode) -> None:
    folder = tmp_path / "n1"
    pull(PulledJournal(folder), node)
    (path,) = folder.glob("*.jsonl")
    (folder / "earlier").mkdir(mode=0o700)
    path.rename(folder / "earlier" / path.name)
    node.add(1)
    pulled = PulledJournal(folder)
    assert [pulled.take(node.answer(0)), pull(pulled, node)] == [0, 1]
    assert read_numbers(folder) == [f'{{"id": {number}' for number in range(1, 5)]


def test_a_refused_batch_leads_to_no_file_being_read_again(tmp_path: Path, node: FakeNode) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    pull(pulled, node)
    (path,) = (tmp_path / "n1").glob("*.jsonl")
    node.add(1)
    stored = path.read_text()
    path.write_text(stored.replace("reason", "changed", 1))  # an error if it is read again
    with pytest.raises(KeeperError, match="do not follow"):
        pulled.take(node.answer(2))
    with pytest.raises(HostError, match="the keys process"):
        pulled.take(node.answer(3), pass_on=fail)
    assert pull(pulled, node) == 1
    with pytest.raises(HostError, match="damaged"):
        pull(PulledJournal(tmp_path / "n1"), node)


def fail(rows: Sequence[Row]) -> None:
    raise HostError("the keys process ended")


def test_a_node_that_alternates_between_two_keys_leads_to_no_file_being_read_again(
    tmp_path: Path, node: FakeNode
) -> None:
    pulled, other = PulledJournal(tmp_path / "n1"), FakeNode(tmp_path / "other")
    other.add(1)
    for each in (node, other, node):
        pulled.take(each.answer(0))
        pull(pulled, each)
    for path in (tmp_path / "n1").glob("*.jsonl"):
        path.write_text(path.read_text().replace("reason", "changed", 1))  # an error if it is read again
    for each in (other, node, other):
        assert pull(pulled, each) == 0
        assert pull(pulled, each) == 0


def test_a_file_that_the_operator_moved_away_is_fetched_again(tmp_path: Path, node: FakeNode) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    pull(pulled, node)
    with pytest.raises(KeeperError, match=r"move .* away"):
        pulled.take(node.answer(2))
    (path,) = (tmp_path / "n1").glob("*.jsonl")
    path.rename(tmp_path / "moved")
    assert pull(pulled, node) == 3


def test_a_write_that_fails_halfway_is_made_good(tmp_path: Path, node: FakeNode) -> None:
    pulled = PulledJournal(tmp_path / "n1")
    pull(pulled, node)
    (path,) = (tmp_path / "n1").glob("*.jsonl")
    node.add(3)
    answer = node.answer(3)
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size * 3 // 2, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            pulled.take(answer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert 3 <= pulled.read_last_number() < 6
    pull(pulled, node)
    assert read_numbers(tmp_path / "n1") == [f'{{"id": {number}' for number in range(1, 7)]


def test_a_stored_journal_may_be_larger_than_other_private_files(tmp_path: Path, node: FakeNode) -> None:
    pull(PulledJournal(tmp_path / "n1"), node)
    (path,) = (tmp_path / "n1").glob("*.jsonl")
    path.write_bytes((b" " * (MAX_FILE_BYTES // 16 - 1) + b"\n") * 16 + path.read_bytes())
    node.add(1)
    assert pull(PulledJournal(tmp_path / "n1"), node) == 1


async def test_the_record_of_an_opening_that_is_written_late_is_waited_for(tmp_path: Path) -> None:
    """A keeper that meets a reader of the outbox writes its line a moment later."""
    settings, desk = settings_in(tmp_path), as_id("i" + "a" * 20)
    calls: list[int] = []
    (settings.lib / "keys").mkdir(parents=True, mode=0o700)

    async def prepare() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            journal = Journal(settings.lib / "keys" / FILE, load_signer(settings.lib / "keys"))
            journal.add(desk, "keeper", Opened(desk, "", (), (), "uid 0", "base"))
            journal.commit()
            journal.close()

    assert f'"{desk}"' in (await wait_opened(settings, desk, prepare)).row
    assert len(calls) == 3


@pytest.mark.slow
async def test_a_desk_without_a_record_of_its_opening_is_refused(tmp_path: Path) -> None:
    async def prepare() -> None:
        """There is nothing to add."""

    with pytest.raises(HostError, match="has no record"):
        await wait_opened(settings_in(tmp_path), as_id("i" + "a" * 20), prepare)


def write_newer(node: FakeNode, name: str, data: dict[str, object]) -> None:
    """Add an event as newer code writes it: under another name, or with fields that are unknown here."""
    journal = Journal(node.folder / FILE, load_signer(node.folder))
    event = make_dataclass(name, [(key, object) for key in data], slots=True, frozen=True)(**data)
    journal.add("desk", "door", event)
    journal.commit()
    journal.close()


def test_events_of_a_node_that_runs_newer_code_are_stored_whole_and_recorded_as_far_as_known(
    tmp_path: Path, node: FakeNode
) -> None:
    write_newer(node, "Revoked", {"desk": "desk", "grant": "erp-token", "why": "newer", "colour": {"deep": [1]}})
    write_newer(node, "Teleported", {"desk": "desk", "where": "home"})
    passed_on: list[Row] = []
    pulled = PulledJournal(tmp_path / "n1")
    assert pulled.take(node.answer(0), passed_on.extend) == 5
    assert "colour" in next((tmp_path / "n1").glob("*.jsonl")).read_text()
    parsed = parse_pulled(passed_on)
    assert [(each["event"], cast(Any, each["data"])["why"]) for each in parsed.events] == [
        *(("Revoked", f"reason {number}") for number in range(3)),
        ("Revoked", "newer"),
    ]
    assert parsed.newer == {"Revoked", "Teleported"}
    assert parse_pulled(passed_on[:3]).newer == frozenset()
    assert PulledJournal(tmp_path / "n1").take(node.answer(5)) == 0, "the stored chain is accepted after a restart"
