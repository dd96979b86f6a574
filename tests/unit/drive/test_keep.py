"""Tests of the drive's files: content by hash, names with versions, owners and readers."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import pytest

from hotdesk.drive.blobs import HALF
from hotdesk.drive.catalog import Version
from hotdesk.drive.identity import OPERATOR
from hotdesk.drive.keep import Drive, read_input
from hotdesk.errors import BriefError, HostError

JOB = "i" + "a1b2" * 5
ANNA, BERT = "uid:1000", "uid:1001"


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path / "drive", quota=1000)


def test_a_file_is_kept_under_its_hash_and_found_by_its_name(drive: Drive) -> None:
    kept = drive.keep(f"{JOB}/out/report.xlsx", b"data", owner=ANNA, job=JOB, brief="ab", certificate=b"c")
    assert (kept.sha256, kept.size, kept.number) == (hashlib.sha256(b"data").hexdigest(), 4, 1)
    assert (kept.job, kept.brief, kept.certificate, kept.owner) == (JOB, "ab", hashlib.sha256(b"c").hexdigest(), ANNA)
    assert kept.path.read_bytes() == drive.find(f"{JOB}/out/report.xlsx", who=ANNA) == b"data"
    assert kept.path.stat().st_mode & 0o777 == 0o400
    assert drive.get_version(f"{JOB}/out/report.xlsx", who=ANNA) == kept
    assert set(os.listdir(drive.blobs.folder)) == {kept.sha256, kept.certificate}


def test_a_name_has_versions_and_the_same_bytes_are_kept_once(drive: Drive) -> None:
    for data in (b"one", b"two", b"one"):
        drive.keep("a", data, owner=ANNA)
    assert [drive.find("a", number, who=ANNA) for number in (1, 2, 3, None)] == [b"one", b"two", b"one", b"one"]
    assert [each.number for each in drive.list_history("a", who=ANNA)] == [1, 2, 3]
    assert (len(drive.blobs.list_blobs()), drive.count_used_bytes(ANNA)) == (2, 6)
    with pytest.raises(BriefError, match="a has no version 4"):
        drive.find("a", 4, who=ANNA)


def test_a_stream_is_kept_and_given_in_pieces(drive: Drive) -> None:
    drive.keep("a", io.BytesIO(b"x" * 900), owner=ANNA)
    assert b"".join(drive.open_stream("a", who=ANNA)) == b"x" * 900


def test_a_number_is_never_given_twice(drive: Drive) -> None:
    drive.keep("a", b"one", owner=ANNA)
    drive.keep("a", b"two", owner=ANNA)
    assert [each.number for each in drive.remove("a", who=ANNA)] == [1, 2]
    assert drive.keep("a", b"three", owner=ANNA).number == 3


def test_removed_content_is_deleted_unless_others_have_the_same_bytes(drive: Drive) -> None:
    drive.keep("a", b"one", owner=ANNA)
    drive.keep("a", b"two", owner=ANNA)
    kept = drive.keep("b", b"one", owner=BERT)
    drive.remove("a", 2, who=ANNA)
    assert [each.number for each in drive.list_history("a", who=ANNA)] == [1]
    drive.remove("a", who=ANNA)
    assert (drive.blobs.list_blobs(), drive.find("b", who=BERT)) == ([kept.sha256], b"one")
    assert drive.ls(who=ANNA) == []


@pytest.mark.parametrize("changed", [b"two", b"on", b"one and more", b""])
def test_content_changed_on_disk_is_not_returned(drive: Drive, changed: bytes) -> None:
    kept = drive.keep("a", b"one", owner=ANNA)
    kept.path.chmod(0o600)
    kept.path.write_bytes(changed)
    with pytest.raises(HostError, match="was changed"):
        drive.find("a", who=ANNA)
    drive.keep("a", b"one", owner=ANNA)
    assert drive.find("a", 1, who=ANNA) == b"one"


def test_missing_content_is_reported(drive: Drive) -> None:
    drive.keep("a", b"one", owner=ANNA).path.unlink()
    with pytest.raises(HostError, match="cannot be read"):
        drive.find("a", who=ANNA)


def test_names_are_listed_by_how_they_begin_each_with_its_newest_version(drive: Drive) -> None:
    for name in ("a/1", "a/2", "b", "a/1", "%"):
        drive.keep(name, name.encode(), owner=ANNA)
    assert [(each.name, each.number) for each in drive.ls("a/", who=ANNA)] == [("a/1", 2), ("a/2", 1)]
    assert len(drive.ls(who=ANNA)) == 4
    assert [each.name for each in drive.ls("%", who=ANNA)] == ["%"]


def test_two_owners_use_one_name_and_do_not_know_of_each_other(drive: Drive) -> None:
    drive.keep("a", b"anna's", owner=ANNA)
    assert drive.keep("a", b"bert's", owner=BERT).number == 1
    assert (drive.find("a", who=ANNA), drive.find("a", who=BERT)) == (b"anna's", b"bert's")
    with pytest.raises(BriefError, match="several owners have a file 'a': uid:1000, uid:1001; pass --owner"):
        drive.find("a", who=OPERATOR)
    assert drive.find("a", who=OPERATOR, owner=BERT) == b"bert's"


def test_readers_read_and_only_the_owner_or_the_operator_removes(drive: Drive) -> None:
    drive.keep("a", b"one", owner=ANNA, readers=[BERT])
    drive.keep("b", b"two", owner=ANNA, readers=["*"])
    drive.keep("a", b"three", owner=ANNA)
    assert (drive.find("a", who=BERT), drive.find("b", who="uid:7")) == (b"three", b"two")
    assert [each.name for each in drive.ls(who="uid:7")] == ["b"]
    with pytest.raises(BriefError, match="a belongs to uid:1000; only its owner"):
        drive.remove("a", who=BERT)
    drive.keep("a", b"four", owner=ANNA, readers=[])
    with pytest.raises(BriefError, match="no such name"):
        drive.find("a", who=BERT)
    assert len(drive.remove("a", who=OPERATOR)) == 3


def test_beyond_its_quota_an_owner_keeps_nothing_and_nothing_is_written(drive: Drive) -> None:
    drive.keep("a", b"x" * 600, owner=ANNA)
    with pytest.raises(BriefError, match="uid:1000 uses 600 of 1000 bytes of drive quota, so 401 more bytes"):
        drive.keep("b", b"y" * 401, owner=ANNA)
    with pytest.raises(BriefError, match="uses 600 of 1000 bytes of drive quota, so 401 more bytes"):
        drive.keep("b", io.BytesIO(b"y" * 401), owner=ANNA)
    with pytest.raises(BriefError, match="more than 600 bytes, and fewer remain"):
        drive.keep("b", io.BytesIO(b"y" * 601), owner=ANNA)
    assert os.listdir(drive.blobs.folder) == [hashlib.sha256(b"x" * 600).hexdigest()]
    drive.keep("b", b"x" * 600, owner=ANNA)
    drive.keep("b", io.BytesIO(b"x" * 600), owner=ANNA)
    drive.keep("b", b"y" * 401, owner=BERT)
    drive.keep("c", b"y" * 400, owner=ANNA)
    assert (drive.count_used_bytes(ANNA), drive.count_used_bytes(BERT)) == (1000, 401)


def test_a_file_beyond_the_quota_is_refused_before_it_is_read(drive: Drive, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 1001)
    with (tmp_path / "large").open("rb") as file:
        with pytest.raises(BriefError, match="so 1001 more bytes do not fit"):
            drive.keep("a", file, owner=ANNA)
        assert file.tell() == 0


def test_an_intent_is_recorded_first_and_undone_on_failure(drive: Drive) -> None:
    told: list[tuple[Version, int]] = []
    kept = drive.keep("a", b"one", owner=ANNA, intent=lambda each: told.append((each, len(drive.ls(who=ANNA)))))
    assert told == [(kept, 0)]

    def fail(version: Version) -> None:
        raise HostError("no journal")

    with pytest.raises(HostError, match="no journal"):
        drive.keep("a", b"two", owner=ANNA, intent=fail)
    with pytest.raises(HostError, match="no journal"):
        drive.remove("a", who=ANNA, intent=fail)
    assert drive.list_history("a", who=ANNA) == [kept]
    assert drive.find("a", who=ANNA) == b"one"


def test_a_sweep_removes_unreferenced_content(drive: Drive) -> None:
    kept = drive.keep("a", b"one", owner=ANNA)
    with drive.blobs.stage(io.BytesIO(b"unreferenced"), 100) as staged:
        drive.blobs.admit(staged)
    half = drive.blobs.folder / f"{HALF}0"
    half.write_bytes(b"half")
    assert drive.sweep() == len(b"unreferenced")
    os.utime(half, (0, 0))
    with drive.blobs.stage(io.BytesIO(b"being written"), 100) as staged:
        os.utime(drive.blobs.folder / staged.half, (0, 0))
        assert drive.sweep() == 4
        drive.blobs.admit(staged)
    drive.sweep()
    assert (drive.blobs.list_blobs(), drive.find("a", who=ANNA)) == ([kept.sha256], b"one")


def test_an_input_is_a_name_in_the_drive(drive: Drive) -> None:
    drive.keep("prices.csv", b"one", owner=ANNA)
    drive.keep("prices.csv", b"two", owner=ANNA)
    assert read_input(drive, "drive:prices.csv", ANNA) == b"two"
    assert read_input(drive, "drive:prices.csv@1", ANNA) == b"one"
    for wrong in ("prices.csv", "drive:", "drive:../x", "drive:none", "drive:prices.csv@3"):
        with pytest.raises(BriefError):
            read_input(drive, wrong, ANNA)
    with pytest.raises(BriefError, match="no such name"):
        read_input(drive, "drive:prices.csv", BERT)


@pytest.mark.parametrize("owner", ["", "1000", "uid:", "uid:1 uid:2", "*", "uid:1\n"])
def test_an_owner_needs_a_name(drive: Drive, owner: str) -> None:
    with pytest.raises(BriefError, match="is not a valid identity"):
        drive.keep("a", b"", owner=owner)
    if owner != "*":
        with pytest.raises(BriefError, match="is not a valid identity"):
            drive.keep("a", b"", owner=ANNA, readers=[owner])


def test_a_drive_that_is_opened_again_has_everything(drive: Drive) -> None:
    kept = drive.keep("a", b"one", owner=ANNA, readers=[BERT])
    again = Drive(drive.folder)
    assert (again.list_history("a", who=ANNA), again.find("a", who=BERT)) == ([kept], b"one")
    assert again.holds(kept.sha256, who=ANNA)
    assert not again.holds(kept.sha256, who="uid:7")


def test_a_certificate_lies_beside_its_version_and_goes_with_it(drive: Drive) -> None:
    kept = drive.keep("a", b"one", owner=ANNA, certificate=b"proof")
    drive.keep("a", b"two", owner=ANNA)
    assert drive.read_certificate(kept) == b"proof"
    assert drive.holds(kept.certificate, who=ANNA)
    assert not drive.holds(kept.certificate, who=BERT)
    assert drive.sweep() == 0
    assert drive.read_certificate(drive.get_version("a", 1, who=ANNA)) == b"proof"
    drive.remove("a", 1, who=ANNA)
    assert len(drive.blobs.list_blobs()) == 1
    with pytest.raises(BriefError, match="a@2 has no certificate"):
        drive.read_certificate(drive.get_version("a", who=ANNA))


def test_a_certificate_that_was_changed_on_disk_is_not_given(drive: Drive) -> None:
    kept = drive.keep("a", b"one", owner=ANNA, certificate=b"proof")
    path = drive.blobs.get_path(kept.certificate)
    path.chmod(0o600)
    path.write_bytes(b"Proof")
    with pytest.raises(HostError, match="was changed"):
        drive.read_certificate(kept)


def test_two_versions_of_one_certificate_keep_it_until_both_are_gone(drive: Drive) -> None:
    for _ in range(2):
        drive.keep("a", b"one", owner=ANNA, certificate=b"proof")
    drive.remove("a", 1, who=ANNA)
    assert drive.read_certificate(drive.get_version("a", who=ANNA)) == b"proof"
