"""Tests of finding a desk's owner by the files of a state directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotdesk.config import Config
from hotdesk.desk.seam import DeskId
from hotdesk.errors import DeskGone
from hotdesk.host import find_owner_path

DESK = DeskId("i" + "a" * 20)


def test_a_hibernated_desk_is_found_before_a_keeper_has_listed_it(tmp_path: Path) -> None:
    """A restart of the machine empties the run folder."""
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    with pytest.raises(DeskGone, match="is not open"):
        find_owner_path(settings, DESK)
    (settings.lib / "hibernated").mkdir(parents=True)
    (settings.lib / "hibernated" / f"{DESK}.json").touch()
    with pytest.raises(DeskGone, match="is hibernated; resume it"):
        find_owner_path(settings, DESK)
