"""Tests of the files that describe a state directory's desks."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.desk.records import is_hibernated

DESK, OTHER = ("i" + letter * 20 for letter in "ab")


def test_a_desk_is_hibernated_if_its_own_file_exists_whatever_others_contain(tmp_path: Path) -> None:
    assert not is_hibernated(tmp_path, DESK)
    (tmp_path / "hibernated").mkdir()
    (tmp_path / "hibernated" / f"{OTHER}.json").write_text(f'{{"id": "{DESK}"}}')
    assert not is_hibernated(tmp_path, DESK)
    (tmp_path / "hibernated" / f"{DESK}.json").touch()  # its keeper is just writing it
    assert is_hibernated(tmp_path, DESK)


@pytest.mark.parametrize("name", ["../secret", "", DESK + "/../../secret"])
def test_only_a_desk_can_be_hibernated(tmp_path: Path, name: str) -> None:
    (tmp_path / "hibernated" / DESK).mkdir(parents=True)
    (tmp_path / "secret.json").touch()
    assert not is_hibernated(tmp_path, name)
