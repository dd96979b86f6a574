"""Papers: sealed, named by what they say, and gone with their key."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.errors import BriefError, HostError
from hotdesk.job import papers


def test_a_paper_says_what_was_written_and_its_file_does_not(tmp_path: Path) -> None:
    made = papers.create(tmp_path, "ijob")
    name = made.write("the goal is \udcff secret")
    assert papers.find(tmp_path, "ijob").text(name) == "the goal is \udcff secret"
    assert b"secret" not in (tmp_path / "ijob" / "papers" / name).read_bytes()


def test_the_same_words_are_the_same_paper_in_one_job_and_another_in_the_next(tmp_path: Path) -> None:
    one, other = papers.create(tmp_path, "ione"), papers.create(tmp_path, "itwo")
    assert one.write("a") == one.write(b"a") != other.write("a")


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "gone"])
def test_a_paper_that_was_touched_is_an_error(tmp_path: Path, damage: str) -> None:
    made = papers.create(tmp_path, "ijob")
    name, other = made.write("first"), made.write("second")
    path = tmp_path / "ijob" / "papers" / name
    data = bytearray(path.read_bytes())
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "flip":
            data[-1] ^= 1
            path.write_bytes(data)
        case "swap":
            path.write_bytes((path.parent / other).read_bytes())
        case "gone":
            path.unlink()
    with pytest.raises(HostError):
        made.read(name)


def test_without_its_key_nothing_of_a_job_can_be_read(tmp_path: Path) -> None:
    made = papers.create(tmp_path, "ijob")
    made.keep_order(b"order")
    assert made.order() == b"order"
    (tmp_path / "ijob" / "key").unlink()
    with pytest.raises(BriefError, match="nothing is kept"):
        papers.find(tmp_path, "ijob")
