"""Tests of the drive's catalog: names, readers, and catalogs of earlier releases."""

from __future__ import annotations

import os
import shutil
import sqlite3
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest

from hotdesk.drive import identity
from hotdesk.drive.catalog import FILE
from hotdesk.drive.identity import OPERATOR, may_read, may_write
from hotdesk.drive.keep import Drive
from hotdesk.drive.names import check_name, parse_reference
from hotdesk.errors import BriefError, HostError

GOLDEN = Path(__file__).parents[2] / "golden"
FIRST, SECOND = "ia1b2c3d4e5f6g7h8i9j0", "ik1l2m3n4o5p6q7r8s9t0"
ME = f"uid:{os.geteuid()}"


@pytest.mark.parametrize(
    "name", ["a", "report.xlsx", f"{FIRST}/out/report.xlsx", "a b/c", "größe.csv", "a@b", "a@0", "-", "報告", "..a"]
)
def test_a_name_is_a_path_without_ambiguous_characters(name: str) -> None:
    assert check_name(name) == name


NO_NAMES = {
    "empty": "",
    "absolute": "/etc/passwd",
    "above": "../x",
    "above in between": "a/../b",
    "here": "./a",
    "a folder": "a/",
    "two slashes": "a//b",
    "a space at the end": "a ",
    "a line break": "a\nb",
    "an escape": "a\x1b[2Jb",
    "nothing": "a\0b",
    "another direction": "a\u202eb",
    "no width": "a\u200bb",
    "half a character": "a\udcff",
    "in two ways": unicodedata.normalize("NFD", "größe"),
    "a version": "a@3",
    "long": "a" * 1025,
    "a long part": "ä" * 128,
    "deep": "/".join("a" * 33),
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES.keys())
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(BriefError, match=r"not a valid drive name: .*; write it like 'reports/june\.xlsx'"):
        check_name(name)


def test_a_version_is_asked_for_by_number() -> None:
    assert parse_reference("a/b@12") == ("a/b", 12)
    assert parse_reference("a/b") == ("a/b", None)
    for wrong in ("@3", "a@1@2", "../a@1"):
        with pytest.raises(BriefError):
            parse_reference(wrong)


def test_who_may_read_and_who_may_write() -> None:
    assert may_write("uid:1", "uid:1")
    assert may_write(OPERATOR, "uid:1")
    assert not may_write("uid:2", "uid:1")
    assert may_read("uid:2", "uid:1", ("uid:2",))
    assert may_read("uid:2", "uid:1", ("*",))
    assert not may_read("uid:2", "uid:1", ("uid:22",))


def test_the_user_behind_sudo_is_shown_and_changes_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert identity.find_invoker() is None
    assert identity.describe_actor() == f"uid {os.geteuid()} pid {os.getpid()}"
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "1001")
    assert identity.get_current_user() == ME
    if os.geteuid() == 0:
        assert identity.find_invoker() == (1000, 1001)
        assert identity.describe_actor().endswith(" sudo 1000")
    monkeypatch.setenv("SUDO_UID", "-1")
    assert identity.find_invoker() is None


def test_a_catalog_is_the_owners_alone_and_keeps_what_it_has_committed(tmp_path: Path) -> None:
    drive = Drive(tmp_path / "drive")
    drive.keep("a", b"one", owner=ME)
    assert {
        file.name: file.stat().st_mode & 0o077 for file in drive.folder.iterdir() if file.stat().st_mode & 0o077
    } == {}
    with drive.catalog.reading() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA user_version").fetchone() == (1,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("PRAGMA user_version=2", "format 2, but this version of hotdesk supports 1"),
        ("CREATE TRIGGER t AFTER INSERT ON versions BEGIN DELETE FROM versions; END", "changed schema"),
        ("DROP INDEX blobs", "changed schema"),
    ],
)
def test_a_catalog_of_another_make_is_refused(tmp_path: Path, change: str, said: str) -> None:
    drive = Drive(tmp_path / "drive")
    with closing(sqlite3.connect(drive.folder / FILE, isolation_level=None)) as db:
        db.execute(change)
    with pytest.raises(HostError, match=said):
        Drive(drive.folder)


def test_a_catalog_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    drive = Drive(tmp_path / "drive")
    (drive.folder / FILE).rename(tmp_path / "elsewhere")
    (drive.folder / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostError, match="not a regular file"):
        Drive(drive.folder)


def test_a_catalog_that_is_damaged_is_reported(tmp_path: Path) -> None:
    drive = Drive(tmp_path / "drive")
    (drive.folder / FILE).write_bytes(b"no database, but as long as a header of one would be" * 20)
    with pytest.raises(HostError, match="the drive's catalog cannot be used"):
        Drive(drive.folder)


def earlier(folder: Path) -> Path:
    shutil.copytree(GOLDEN / "drive-v0", folder, symlinks=True)
    for path in (folder, *(each for each in folder.rglob("*") if each.is_dir() and not each.is_symlink())):
        path.chmod(0o700)
    return folder


def test_a_drive_of_an_earlier_release_is_taken_over(tmp_path: Path) -> None:
    drive = Drive(earlier(tmp_path / "drive"))
    found = {each.name: drive.find(each.name, who=ME) for each in drive.ls(who=ME)}
    assert found == {
        f"{FIRST}/results/report.txt": b"second\n",
        f"{SECOND}/notes.txt": b"notes\n",
        f"{SECOND}/results/report.txt": b"second\n",
    }
    assert [each.job for each in drive.ls(who=ME)] == [FIRST, SECOND, SECOND]
    assert not (drive.folder / "names").exists()
    assert Drive(drive.folder).ls(who=ME) == drive.ls(who=ME)


def test_what_an_earlier_release_keeps_beside_a_later_one_is_taken_over_once(tmp_path: Path) -> None:
    drive = Drive(earlier(tmp_path / "drive"))
    before = drive.ls(who=ME)
    shutil.copytree(GOLDEN / "drive-v0/names", drive.folder / "names", symlinks=True)
    assert Drive(drive.folder).ls(who=ME) == before


def test_of_an_earlier_drive_nothing_is_lost_that_cannot_be_taken_over(tmp_path: Path) -> None:
    folder = earlier(tmp_path / "drive")
    (digest,) = {os.readlink(each).rpartition("/")[2] for each in folder.rglob("notes.txt")}
    (folder / "names" / FIRST / "strange\u202ename@2").symlink_to(f"../../blobs/{digest}")
    (folder / "names" / FIRST / "dangling").symlink_to("../../blobs/" + "0" * 64)
    drive = Drive(folder)
    assert os.listdir(folder / "names" / FIRST) == ["dangling"]
    assert drive.find(f"{FIRST}/strange_u202ename_2", who=ME) == b"notes\n"


def test_a_catalog_of_the_first_format_stays_loadable(tmp_path: Path) -> None:
    folder = earlier(tmp_path / "drive")
    shutil.rmtree(folder / "names")
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.executescript((GOLDEN / "drive-v1.sql").read_text())
        db.execute("PRAGMA user_version=1")
    (folder / FILE).chmod(0o600)
    drive = Drive(folder)
    name = f"{FIRST}/results/report.txt"
    assert [drive.find(name, number, who="uid:1000") for number in (1, 2)] == [b"first\n", b"second\n"]
    (first, second) = drive.list_history(name, who="uid:1000")
    assert (first.certificate, second.certificate, first.brief, first.job) == ("cert", "", "ab" * 32, FIRST)
    assert drive.find("prices.csv", who="uid:7") == b"notes\n"
    assert drive.get_version("prices.csv", who="uid:7").readers == ("uid:1000", "*")
    assert drive.keep("gone.csv", b"again", owner="uid:0").number == 2
