"""Tests of the files of volumes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.desk.room.volume_store import VolumeStore
from hotdesk.errors import DeskError


def test_dropping_a_volume_removes_what_a_killed_keeper_left_of_it(tmp_path: Path) -> None:
    store = VolumeStore(tmp_path / "volumes", tmp_path / "place")
    store.folder.mkdir()
    for name in ("mine.ext4", "mine.new", "other.ext4", "other.new"):
        (store.folder / name).touch()
    with pytest.raises(DeskError, match="already being created"):
        store.make("mine", 16 << 20)
    store.drop("mine")
    store.drop("mine")
    assert sorted(os.listdir(store.folder)) == ["other.ext4", "other.new"]
