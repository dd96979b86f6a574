"""Tests of private folders: who owns them."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hotdesk.desk.keeper import outbox
from hotdesk.errors import HostError
from hotdesk.linux import private_files, uids

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
Make = Callable[[Path], None]


@pytest.fixture(params=["vault", "outbox"])
def make(request: pytest.FixtureRequest) -> Make:
    return partial(private_files.make_folder, owner=uids.KEYS) if request.param == "vault" else outbox.make_folder


def test_a_folder_whose_maker_was_killed_is_given_to_its_owner(tmp_path: Path, make: Make) -> None:
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    make(folder)
    assert (folder.stat().st_uid, folder.stat().st_gid) == (uids.KEYS, uids.KEYS)
    make(folder)


def test_a_folder_with_files_or_of_another_user_keeps_its_owner(tmp_path: Path, make: Make) -> None:
    for name, owner in (("full", 0), ("foreign", 1000)):
        folder = tmp_path / name
        folder.mkdir(mode=0o700)
        os.chown(folder, owner, owner)
        if not owner:
            (folder / "file").touch()
        make(folder)
        assert folder.stat().st_uid == owner


def test_nothing_is_given_away_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "keys").symlink_to("host")
    with pytest.raises(HostError, match="cannot create the folder"):
        private_files.make_folder(tmp_path / "keys", uids.KEYS)
    assert (tmp_path / "host").stat().st_uid == 0
