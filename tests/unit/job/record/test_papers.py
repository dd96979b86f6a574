"""Tests of papers: encrypted, named by their content, and unreadable without their key."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.errors import BriefError, HostError
from hotdesk.job.record import papers
from hotdesk.job.record.paper_log import HEAD


def test_a_paper_can_be_read_back_and_its_file_is_encrypted(tmp_path: Path) -> None:
    made = papers.create(tmp_path, "ijob")
    name = made.write("the goal is \udcff secret")
    assert papers.find(tmp_path, "ijob").read_text(name) == "the goal is \udcff secret"
    (file,) = (tmp_path / "ijob" / "papers").iterdir()
    assert b"secret" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_same_words_are_the_same_paper_in_one_job_and_another_in_the_next(tmp_path: Path) -> None:
    one, other = papers.create(tmp_path, "ione"), papers.create(tmp_path, "itwo")
    assert one.write("a") == one.write(b"a") != other.write("a")


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "gone"])
def test_a_paper_that_was_touched_is_an_error(tmp_path: Path, damage: str) -> None:
    made = papers.create(tmp_path, "ijob")
    name, _ = made.write("one"), made.write("two")
    (path,) = (tmp_path / "ijob" / "papers").iterdir()
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(data[: len(data) // 2 - 1])
        case "flip":
            data[len(data) // 2 - 2] ^= 1
            path.write_bytes(data)
        case "swap":
            one, two = data[: len(data) // 2], data[len(data) // 2 :]
            path.write_bytes(one[:HEAD] + two[HEAD:] + two[:HEAD] + one[HEAD:])
        case "gone":
            path.unlink()
    with pytest.raises(HostError):
        papers.find(tmp_path, "ijob").read(name)
    with pytest.raises(HostError):
        made.read(name)


def test_without_its_key_nothing_of_a_job_can_be_read(tmp_path: Path) -> None:
    made = papers.create(tmp_path, "ijob")
    made.keep_order(b"order")
    assert made.read_order() == b"order"
    (tmp_path / "ijob" / "key").unlink()
    with pytest.raises(BriefError, match="was deleted"):
        papers.find(tmp_path, "ijob")


def test_two_processes_write_papers_of_one_job_and_each_finds_the_others(tmp_path: Path) -> None:
    one, other = papers.create(tmp_path, "ijob"), papers.find(tmp_path, "ijob")
    names = [each.write(f"{number}") for number in range(5) for each in (one, other)]
    assert [one.read_text(name) for name in names] == [other.read_text(name) for name in names] == [*"0011223344"]


def test_a_partial_write_of_a_killed_process_hides_no_other_paper(tmp_path: Path) -> None:
    died = papers.create(tmp_path, "ijob")
    whole, half = died.write("whole"), died.write("half")
    (file,) = (tmp_path / "ijob" / "papers").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    goes_on = papers.find(tmp_path, "ijob")
    with pytest.raises(HostError, match="is missing"):
        goes_on.read(half)
    assert goes_on.write("half") == half
    assert (goes_on.read_text(whole), goes_on.read_text(half)) == ("whole", "half")


def test_a_job_that_continues_does_not_write_the_same_paper_twice(tmp_path: Path) -> None:
    papers.create(tmp_path, "ijob").write("a" * 1000)
    papers.find(tmp_path, "ijob").write("a" * 1000)
    assert len(list((tmp_path / "ijob" / "papers").iterdir())) == 1


@pytest.mark.parametrize("name", ["", "x", "é" * 64, "f" * 64, "../key"])
def test_a_missing_paper_is_reported_as_gone(tmp_path: Path, name: str) -> None:
    made = papers.create(tmp_path, "ijob")
    made.write("a")
    with pytest.raises(HostError, match="is missing"):
        made.read(name)
