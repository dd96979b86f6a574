"""Tests of a brief's items: files, rows and lines, each with a name that is safe in a path."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hotdesk.brief.brief import Brief
from hotdesk.brief.load import parse_job
from hotdesk.door.policy.scope import scope_of
from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError
from hotdesk.swarm.items import (
    Item,
    add_items,
    format_manifest,
    is_workbook,
    list_items,
    list_kept_items,
    read_manifest,
)

BRIEF = """
goal = "Read {item}."
deliverables = [{path = "{item}.json"}]
[each]
over = "%s"
"""


def brief_over(folder: Path, over: str, more: str = "") -> Brief:
    return parse_job(((BRIEF % over) + more).encode(), folder, scope_of)


def test_files_are_items_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("b.pdf", "a.pdf", "ignored.txt"):
        (tmp_path / "in" / name).write_text(name)
    items = list_items(brief_over(tmp_path, "in/*.pdf"))
    assert [(item.index, item.key, item.name) for item in items] == [(0, "a", "item.pdf"), (1, "b", "item.pdf")]
    assert items[0].sha256 == hashlib.sha256(b"a.pdf").hexdigest()
    assert items[0].read() == b"a.pdf"
    assert len(format_manifest(items).splitlines()) == 2


def test_files_of_the_drive_are_items_as_they_are_now(tmp_path: Path) -> None:
    drive = Drive(tmp_path / "drive")
    for name in ("in/b.pdf", "in/a.pdf", "in/deep/c.pdf", "out/a.pdf", "in/a.pdf", "memory/x.pdf"):
        drive.keep(name, f"{name} {len(drive.ls(who='uid:0'))}".encode(), owner="uid:0")
    kept = drive.ls(who="uid:0")
    each = brief_over(tmp_path, "drive:in/*.pdf").each
    assert each is not None
    items = list_kept_items(kept, each.over)
    assert [(item.key, item.name, item.place) for item in items] == [
        ("a", "item.pdf", "drive:in/a.pdf@2"),
        ("b", "item.pdf", "drive:in/b.pdf@1"),
    ]
    assert items[0].read() == b"in/a.pdf 4"
    keys = [item.key for item in list_kept_items(kept, "drive:*/*.pdf")]
    assert keys == ["in_a.pdf", "b", "out_a.pdf"], "what workers kept for later is in no list"
    for pattern, why in (("drive:in/*.png", "no file of the drive"), ("drive:in/rows.csv", "next to the brief")):
        with pytest.raises(BriefError, match=why):
            list_kept_items(kept, pattern)


def test_names_are_safe_and_no_two_are_alike(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        for name in ("..a b$(id).pdf", "same.pdf", "SAME.pdf"):
            (tmp_path / folder / name).write_text(folder + name)
    keys = [item.key for item in list_items(brief_over(tmp_path, "*/*.pdf"))]
    assert len({key.lower() for key in keys}) == len(keys) == 6
    assert all(set(key) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") for key in keys)
    assert not any(key.startswith((".", "-")) for key in keys)


def test_rows_and_lines_are_items(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("number,name\nA/1,first\nA/2,second\nA/3,third\n")
    items = list_items(brief_over(tmp_path, "rows.csv", 'key = "number"\n'))
    assert [item.key for item in items] == ["A_1", "A_2", "A_3"]
    assert json.loads(items[1].read()) == {"number": "A/2", "name": "second"}
    items = list_items(brief_over(tmp_path, "rows.csv", "batch = 2\n"))
    assert [item.key for item in items] == ["row-000001", "row-000003"]
    assert len(json.loads(items[0].read())) == 2
    (tmp_path / "list.txt").write_text("one\n\ntwo\n")
    assert [item.read() for item in list_items(brief_over(tmp_path, "list.txt"))] == [b"one\n", b"two\n"]


def test_an_item_that_was_changed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_text("before")
    (item,) = list_items(brief_over(tmp_path, "*.pdf"))
    path.write_text("after")
    with pytest.raises(BriefError, match="was changed since"):
        item.read()


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1\n")
    with pytest.raises(BriefError, match="fewer cells than"):
        list_items(brief_over(tmp_path, "rows.csv"))
    with pytest.raises(BriefError, match="no items found"):
        list_items(brief_over(tmp_path, "*.pdf"))
    outside = tmp_path / "folder"
    outside.mkdir()
    (tmp_path / "secret.pdf").write_text("x")
    (outside / "link.pdf").symlink_to(tmp_path / "secret.pdf")
    with pytest.raises(BriefError, match="link to a file outside"):
        list_items(replace(brief_over(tmp_path, "*.pdf"), folder=outside))


def test_rows_of_a_workbook_are_items(tmp_path: Path) -> None:
    brief = brief_over(tmp_path, "rows.xlsx", 'key = "number"\n')
    assert brief.each is not None
    assert is_workbook(brief.each)
    items = list_items(brief, [{"number": "A/1", "name": "first"}, {"number": "A/2", "name": "second"}])
    assert [(item.key, item.name) for item in items] == [("A_1", "item.json"), ("A_2", "item.json")]
    assert json.loads(items[1].read()) == {"number": "A/2", "name": "second"}
    files = brief_over(tmp_path, "*.xlsx").each
    assert files is not None
    assert not is_workbook(files)


def make_item(index: int, key: str, text: bytes = b"x") -> Item:
    return Item(index, key, hashlib.sha256(text).hexdigest(), "item.txt", None, text)


def test_items_that_are_added_come_after_those_that_keep_their_places() -> None:
    before = read_manifest(format_manifest([make_item(0, "b"), make_item(1, "d")]))
    found = [make_item(0, "a"), make_item(1, "b"), make_item(2, "c"), make_item(3, "d")]
    items = add_items(before, found)
    assert [(item.index, item.key) for item in items] == [(0, "b"), (1, "d"), (2, "a"), (3, "c")]


@pytest.mark.parametrize("found", [[make_item(0, "c")], [make_item(0, "b", b"other")]], ids=["gone", "changed"])
def test_no_item_is_added_in_the_place_of_another(found: list[Item]) -> None:
    before = read_manifest(format_manifest([make_item(0, "b")]))
    with pytest.raises(BriefError, match=r"item b of the swarm (is missing|was changed)"):
        add_items(before, found)
