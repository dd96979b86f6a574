"""Tests of how the guest reports changes that happen during its own directory scan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hotdesk_guest import watch
from hotdesk_guest.watch import GuestWatch
from hotdesk_guest.wire import decode


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[GuestWatch]:
    opened = GuestWatch(str(tmp_path), recursive=True)
    yield opened
    opened.close()


def told(watched: GuestWatch) -> list[tuple[object, object]]:
    found = []
    while batch := watched.take():
        changes = decode(batch)
        assert isinstance(changes, list)
        found += [(change.get("kind", "mark"), change.get("path", "")) for change in changes]
    return found


def test_a_file_found_by_the_scan_is_reported_once(watched: GuestWatch, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").touch()
    watched.enter("d/")
    watched.change(watch.CREATE, "d/f")
    assert told(watched) == [("create", "d/f")]


@pytest.mark.parametrize(("mask", "kind"), [(watch.DELETE, "remove"), (watch.MOVED_FROM, "rename")])
def test_a_file_that_was_listed_and_then_replaced_is_reported_again(
    watched: GuestWatch, tmp_path: Path, mask: int, kind: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").touch()
    watched.enter("d/")
    watched.change(mask, "d/f")
    watched.change(watch.CREATE, "d/f")
    assert told(watched) == [("create", "d/f"), (kind, "d/f"), ("create", "d/f")]


@pytest.mark.slow
def test_a_mark_comes_after_everything_before_it(watched: GuestWatch, tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number}").touch()
    watched.drain(7)
    assert [kind for kind, _ in told(watched)][-1] == "mark"
    (tmp_path / "later").touch()
    watched.drain(8)
    assert told(watched)[0] == ("create", "later")


@pytest.mark.slow
def test_no_more_events_are_read_than_the_host_accepts(watched: GuestWatch, tmp_path: Path) -> None:
    for number in range(2 * watch.HIGH):
        (tmp_path / f"{number}").touch()
    watched.read()
    assert watch.HIGH <= len(watched.waiting) < 2 * watch.HIGH
    assert not watched.wants_more()


def test_no_batch_is_larger_than_a_frame(watched: GuestWatch) -> None:
    name = b"\xff" * 250
    for number in range(3000):
        watched.note(next(iter(watched.folders)), watch.CREATE, f"{number}" + name.decode("utf-8", "surrogateescape"))
    while batch := watched.take():
        assert len(batch) <= 32768


def test_too_many_folders_are_refused_not_half_watched(tmp_path: Path) -> None:
    opened = GuestWatch(str(tmp_path), recursive=False)
    opened.folders = dict.fromkeys(range(watch.MAX_FOLDERS), "")
    with pytest.raises(OSError, match="cannot be watched"):
        opened.add("more/")
    opened.close()
