"""Tests of the records of hibernated desks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from hotdesk.config import Config
from hotdesk.desk.image.image import Image
from hotdesk.desk.keeper.hibernated import HibernatedDesk, HibernatedDesks


def test_a_desk_whose_images_cannot_be_pinned_has_no_record(tmp_path: Path) -> None:
    settings = Config(run=tmp_path / "run", lib=tmp_path / "lib", images=tmp_path / "images")
    settings.images.mkdir()
    (settings.images / "pins").write_text("no folder")
    image = Image("base", "d" * 64, (tmp_path / "layer",), "python3", "x86_64", 0.0, 0, "a test")
    desks = HibernatedDesks(settings, lambda: cast(Any, None))
    with pytest.raises(OSError, match="pins"):
        desks.write(HibernatedDesk("i1", {}, image.digest, "", 0, 0.0, 0.0), image, image)
    assert not desks.has("i1")
