"""Tests of the records of desks in a state directory, under concurrent readers and writers."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.config import GIB, Config
from hotdesk.desk.keeper import state
from hotdesk.desk.room.disk import Memory
from hotdesk.desk.seam import new_id
from hotdesk.errors import HostError, KeeperError
from hotdesk.linux import uids
from hotdesk.linux.cgroup import find_hierarchies


@pytest.fixture
def settings(home: Path) -> Iterator[Config]:
    own = home / "state"
    yield Config(run=own / "run", lib=own / "lib", images=own / "images")
    assert not list((own / "run/desks").glob("*"))


def test_a_desk_is_listed_from_registration_to_removal(settings: Config) -> None:
    state.prepare(settings)
    one, two = new_id(), new_id()
    first, second = state.enter(settings, one, {"image": "base"}), state.enter(settings, two, {})
    second.note(opened=1.0)
    first.note(opened=2.0, state="open")
    told = state.list_own_desks(settings)
    assert [(each["id"], each["kept"]) for each in told] == [(two, True), (one, True)]
    assert (told[1]["image"], told[1]["state"], told[1]["schema"]) == ("base", "open", state.SCHEMA)
    assert state.list_orphans(settings) == []
    first.leave()
    second.leave()
    assert state.list_own_desks(settings) == []


def test_an_id_is_registered_once(settings: Config) -> None:
    state.prepare(settings)
    desk = new_id()
    record = state.enter(settings, desk, {})
    with pytest.raises(KeeperError, match=desk):
        state.enter(settings, desk, {})
    record.leave()


def test_a_desk_whose_lock_is_free_is_an_orphan(settings: Config) -> None:
    state.prepare(settings)
    record = state.enter(settings, new_id(), {})
    assert state.has_live_keeper(record.folder)
    fcntl.flock(record.lock, fcntl.LOCK_UN)
    assert not state.has_live_keeper(record.folder)
    assert state.list_orphans(settings) == [record.folder.name]
    assert [told["kept"] for told in state.list_own_desks(settings)] == [False]
    record.leave()


def test_an_orphan_is_removed_with_its_user_ids(settings: Config) -> None:
    state.prepare(settings)
    desk = new_id()
    record = state.enter(settings, desk, {})
    base = uids.claim(record.folder)
    record.note(base=base)
    (settings.run / "runtime" / desk).mkdir()
    assert state.bury(settings, find_hierarchies(), desk, Memory) == [], "a live keeper's desk is left alone"
    assert record.folder.exists()
    os.close(record.lock)
    assert state.bury(settings, find_hierarchies(), desk, Memory) == []
    assert not record.folder.exists()
    assert not (settings.run / "runtime" / desk).exists()
    assert not (uids.CLAIMS / str((base - uids.FIRST) // uids.WIDTH)).is_symlink()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x00"])
def test_a_malformed_folder_is_skipped_and_removed(settings: Config, text: str) -> None:
    state.prepare(settings)
    folder = settings.run / "desks" / new_id()
    folder.mkdir()
    (folder / "desk.json").write_text(text)
    assert state.list_own_desks(settings) == []
    assert state.list_orphans(settings) == [folder.name]
    assert state.bury(settings, find_hierarchies(), folder.name, Memory) == []


def test_foreign_entries_in_the_folder_are_skipped(settings: Config) -> None:
    state.prepare(settings)
    for name in ("notes.txt", "i" + "A" * 20, "..x"):
        (settings.run / "desks" / name).write_text("x")
    assert state.list_own_desks(settings) == []
    assert state.list_orphans(settings) == []
    for file in (settings.run / "desks").iterdir():
        file.unlink()


def test_without_a_state_directory_there_are_no_desks(tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "none", lib=tmp_path, images=tmp_path)
    assert state.list_own_desks(settings) == []
    assert state.list_orphans(settings) == []


def test_records_are_written_atomically(settings: Config) -> None:
    state.prepare(settings)
    record = state.enter(settings, new_id(), {})
    stop = threading.Event()
    broken: list[object] = []

    def look() -> None:
        while not stop.is_set():
            try:
                json.loads((record.folder / "desk.json").read_text())
            except ValueError as e:
                broken.append(e)

    watcher = threading.Thread(target=look)
    watcher.start()
    for number in range(300):
        record.note(filler="x" * (number * 50))
    stop.set()
    watcher.join()
    record.leave()
    assert not broken


@pytest.mark.slow
def test_readers_do_not_disturb_registration_and_removal(settings: Config) -> None:
    state.prepare(settings)
    stop = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        while not stop.is_set():
            try:
                state.list_own_desks(settings)
                wrong.extend(state.list_orphans(settings))
            except Exception as e:  # noqa: BLE001 - whatever it is, the test names it
                wrong.append(e)

    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end and not wrong:
            state.enter(settings, new_id(), {}).leave()
    finally:
        stop.set()
        for watcher in watchers:
            watcher.join()
        for folder in (settings.run / "desks").iterdir():
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    assert not wrong, "a desk being entered or left was taken for an orphan"


def test_an_unreachable_state_directory_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(HostError, match="chmod"):
        state.prepare(Config(run=closed / "run", lib=closed, images=closed))


def test_a_machine_that_is_nearly_full_opens_nothing(settings: Config, tmp_path: Path) -> None:
    state.check_floors(settings)
    with pytest.raises(HostError, match="GiB are free"):
        state.check_floors(replace(settings, disk_floor=1 << 60))
    with pytest.raises(HostError, match="memory"):
        state.check_floors(replace(settings, memory_floor=1 << 60))
    assert state.measure_available_memory() < 1 << 50
    state.prepare(settings)


def test_an_age_is_never_negative() -> None:
    assert state.compute_age({"opened": time.time() + 100}) == 0
    assert 9 < state.compute_age({"opened": time.time() - 10}) < 12
    assert state.compute_age({}) < 1
    assert GIB == 1 << 30
