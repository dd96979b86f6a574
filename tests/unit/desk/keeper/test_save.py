"""Tests of saving an image in a child of the keeper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from hotdesk.config import Config
from hotdesk.desk.image import store
from hotdesk.desk.image.image import Image, find
from hotdesk.desk.keeper.root import Teller
from hotdesk.desk.keeper.save import Saves

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making an image needs root")
DESK = "i" + "a" * 20


def test_a_child_saves_an_image_within_its_limits(tmp_path: Path) -> None:
    images, upper = tmp_path / "images", tmp_path / "up"
    settings = Config(tmp_path / "run", tmp_path / "lib", images, disk_floor=0)
    with store.writing(images, lambda line: None) as (work, _):
        (work / "tree").mkdir()
        base = Image("base", "1" * 64, (images / "layers" / ("1" * 64),), "/bin/python3", "", 1.0, 1, "")
        store.publish(images, base, work / "tree")
    (upper / "etc").mkdir(parents=True)
    (upper / "etc/motd").write_text("mine")
    layer = os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    try:
        pid, complaint = Saves(settings, {}, cast(Teller, None)).start(layer, base, "mine", DESK)
    finally:
        os.close(layer)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(complaint, "rb") as file:
        assert (file.read(), status) == (b"", 0)
    assert (find(images, "mine").layers[0] / "etc/motd").read_text() == "mine"
