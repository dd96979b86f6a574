"""Tests of `hotdesk burn` with hibernated desks whose keeper and owner are gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotdesk.cli.desks.burn import burn_each
from hotdesk.config import Config
from hotdesk.desk.seam import DeskId
from hotdesk.errors import HostError, HotdeskError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a keeper is root's")
DESK, OTHER = (DeskId("i" + letter * 20) for letter in "ab")


def leave(state: Path, desk: str) -> Config:
    """Leave a desk's record, as after a restart of the machine; return the settings."""
    folder = state / "lib/hibernated"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{desk}.json").write_text("{}")
    return Config(run=state / "run", lib=state / "lib", images=state / "lib/images")


async def test_a_hibernated_desk_is_destroyed_after_a_restart_of_the_machine(home: Path) -> None:
    settings = leave(home / "state", DESK)
    assert await burn_each([(settings, DESK)]) == 0
    assert not list((settings.lib / "hibernated").iterdir())


async def test_a_desk_that_resists_does_not_keep_others(home: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    resisting = leave(closed / "state", DESK)  # no desk's user may enter the folder
    settings = leave(home / "state", OTHER)
    with pytest.raises(HotdeskError):
        await burn_each([(resisting, DESK), (settings, OTHER)])
    assert not list((settings.lib / "hibernated").iterdir())
    with pytest.raises(HostError, match="2 desks could not be burnt"):
        await burn_each([(resisting, DESK), (resisting, DESK)])
