"""Tests of what the native API shows of a desk."""

from __future__ import annotations

from pathlib import Path

from hotdesk.api.native.desks.desks import has_screen
from hotdesk.config import Config
from hotdesk.host import Host


def test_a_desk_whose_image_was_removed_may_have_a_screen(tmp_path: Path) -> None:
    host = Host(Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images"))
    assert has_screen(host, "removed")
