"""Tests of the store of job memories: names, limits, one version of each entry, no duplicates."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.keep import Drive
from hotdesk.drive.memory import (
    MAX_FACT_CHARS,
    MAX_FILES,
    MemoryStore,
    check_memory_name,
    clean_fact,
    find_name_fault,
    make_drive_name,
    name_fact,
    parse_drive_name,
)
from hotdesk.errors import BriefError


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(Drive(tmp_path / "drive"), OPERATOR)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("memory/orders/files/parse.py", ("orders", "file", "parse.py")),
        ("memory/orders/facts/0123456789abcdef", ("orders", "fact", "0123456789abcdef")),
        ("memory/orders/facts/parse.py", None),
        ("memory/orders/files/facts.md", None),
        ("memory/orders/files/a/b", None),
        ("memory/orders/other/a", None),
        ("memory/Orders/files/a", None),
        ("memory/orders", None),
        ("i1/memory/orders/files/a", None),
    ],
)
def test_a_drive_name_is_recognised_as_a_memory_entry_or_not(name: str, expected: tuple[str, str, str] | None) -> None:
    assert parse_drive_name(name) == expected
    if expected is not None:
        assert make_drive_name(*expected) == name


def test_names_of_files_are_plain() -> None:
    assert find_name_fault("parse_export-2.py") == ""
    assert all(map(find_name_fault, ("", ".", "..", ".x", "a b", "a/b", "ä.py", "a" * 41, "facts.md", "a\n")))


def test_a_memorys_name_is_that_of_a_brief() -> None:
    assert check_memory_name("orders_2-a") == "orders_2-a"
    for name in ("", "Orders", "../x", "a/b", "1a"):
        with pytest.raises(BriefError):
            check_memory_name(name)


def test_a_fact_is_one_line_named_by_its_content() -> None:
    assert clean_fact(" a\n\tb ") == "a b"
    assert name_fact(b"a b") == name_fact(b"a b") != name_fact(b"a c")


def test_a_job_keeps_each_thing_once_and_a_later_job_replaces_it(store: MemoryStore) -> None:
    noted: list[Version] = []
    kept = [
        store.keep("orders", "file", "a.py", data, job=job, brief="", intent=noted.append)
        for data, job in ((b"1", "i1"), (b"1", "i1"), (b"1", "i2"), (b"2", "i2"))
    ]
    assert kept == [True, False, True, True]
    assert [each.number for each in noted] == [1, 2, 3]
    now = store.list_items()[0].version.at
    store.prune("orders", now, lambda item: None)
    assert [each.number for each in store.drive.list_history("memory/orders/files/a.py", who=OPERATOR)] == [3]


@pytest.mark.slow
def test_the_newest_entries_stay_when_the_limit_is_exceeded(store: MemoryStore) -> None:
    for number in range(MAX_FILES + 2):
        store.keep("orders", "file", f"f{number}", b"x", job="i1", brief="")
    store.keep("orders", "fact", "0" * 16, b"x" * 4 * MAX_FACT_CHARS + b"x", job="i1", brief="")
    store.keep("other", "file", "f0", b"x", job="i1", brief="")
    items = store.list_items("orders")
    now = items[0].version.at
    dropped: list[str] = []
    store.prune("orders", now, lambda item: dropped.append(item.name))
    assert len(dropped) == 3
    assert "0" * 16 in dropped
    assert len(store.list_items("orders")) == MAX_FILES
    assert len(store.list_items("other")) == 1


def test_what_is_gone_is_not_found_and_removing_it_again_is_no_error(store: MemoryStore) -> None:
    store.keep("orders", "file", "a.py", b"1", job="i1", brief="")
    (item,) = store.list_items()
    assert store.find_item(item.reference) == item
    assert store.find_item("memory/orders/files/a.py@2") is None
    assert store.find_item("secret.csv@1") is None
    store.remove_item(item)
    store.remove_item(item)
    assert store.find_item(item.reference) is None
    assert list((store.drive.folder / "blobs").iterdir()) == []
