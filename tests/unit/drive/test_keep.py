"""What is kept: bytes by their hash, names that lead to them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from hotdesk.drive.keep import Drive
from hotdesk.errors import BriefError, HostError

JOB = "i" + "a1b2" * 5


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    """Give a drive that is empty."""
    return Drive(tmp_path / "drive")


def test_a_file_is_kept_under_its_hash_and_found_by_its_name(drive: Drive) -> None:
    blob = drive.keep(JOB, "out/report.xlsx", b"data")
    assert (blob.sha256, blob.size) == (hashlib.sha256(b"data").hexdigest(), 4)
    assert blob.path.read_bytes() == drive.find(JOB, "out/report.xlsx") == b"data"
    assert (drive.blobs / blob.sha256).stat().st_mode & 0o777 == 0o400
    assert blob.path.name == "report.xlsx"
    assert drive.names.stat().st_mode & 0o777 == 0o700


def test_the_same_bytes_are_kept_once_and_a_name_leads_to_the_newest(drive: Drive) -> None:
    drive.keep(JOB, "a", b"one")
    drive.keep(JOB, "b", b"one")
    drive.keep(JOB, "a", b"two")
    assert (drive.find(JOB, "a"), drive.find(JOB, "b")) == (b"two", b"one")
    assert len(list(drive.blobs.iterdir())) == 2
    assert sorted(path.name for path in (drive.names / JOB).iterdir()) == ["a", "b"]


def test_what_was_changed_since_is_not_given(drive: Drive) -> None:
    blob = drive.keep(JOB, "a", b"one")
    (drive.blobs / blob.sha256).chmod(0o600)
    (drive.blobs / blob.sha256).write_bytes(b"two")
    with pytest.raises(HostError, match="was changed since"):
        drive.find(JOB, "a")
    drive.keep(JOB, "a", b"one")
    assert drive.find(JOB, "a") == b"one"


def test_what_is_not_there_is_said(drive: Drive) -> None:
    with pytest.raises(BriefError, match="nothing is kept as 'a'"):
        drive.find(JOB, "a")


@pytest.mark.parametrize(("job", "name"), [(JOB, "../x"), (JOB, "/x"), ("..", "x"), ("a/b", "x"), ("", "x")])
def test_a_name_stays_below_its_job(drive: Drive, job: str, name: str) -> None:
    with pytest.raises(BriefError, match="no name to keep"):
        drive.keep(job, name, b"data")


def test_a_file_that_cannot_be_named_leaves_no_half_name(drive: Drive) -> None:
    drive.keep(JOB, "folder/a", b"one")
    with pytest.raises(HostError, match="cannot be written"):
        drive.keep(JOB, "folder", b"two")
    assert os.listdir(drive.names / JOB) == ["folder"]
