"""Tests that no image has a layer twice, which overlay refuses to mount."""

from __future__ import annotations

from pathlib import Path

from hotdesk.desk.image.image import Image
from hotdesk.desk.keeper.capture import choose_name

ONE, TWO, THREE = ("a" * 64, "b" * 64, "c" * 64)


def image(*layers: str) -> Image:
    return Image("x", "0" * 64, tuple(Path("/layers") / each for each in layers), "/usr/bin/python3", "x", 0.0, 0, "")


def test_a_layer_repeated_further_up_gets_another_name() -> None:
    below = image(TWO, ONE)
    assert choose_name(THREE, below) == THREE
    assert choose_name(TWO, below) == TWO  # on top already: it is not added
    again = choose_name(ONE, below)
    assert again not in (ONE, TWO)
    assert choose_name(ONE, image(again, TWO, ONE)) == again
    assert choose_name(ONE, image(TWO, again, TWO, ONE)) not in (ONE, TWO, again)
