"""Tests of which image and wall a template stands for."""

from __future__ import annotations

import pytest

from hotdesk.api.e2b.responses import E2bError
from hotdesk.api.e2b.templates import parse_image_name, parse_wall


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("base", "base"),
        ("desktop", "e2b-desktop"),
        ("desktop:latest", "e2b-desktop"),
        ("team/desktop", "e2b-desktop"),
        ("code-interpreter-v1", "code-interpreter-v1"),
        ("mine", "mine"),
        ("base@gvisor", "base"),
        ("team/desktop:latest@gvisor", "e2b-desktop"),
        ("team/desktop@gvisor", "e2b-desktop"),
    ],
)
def test_a_template_means_an_image(template: str, image: str) -> None:
    assert parse_image_name(template) == image


@pytest.mark.parametrize(
    ("template", "metadata", "wall"),
    [
        ("base", {}, ""),
        ("base@gvisor", {}, "gvisor"),
        ("base", {"hotdesk.wall": "microvm"}, "microvm"),
        ("base@gvisor", {"hotdesk.wall": "container"}, "gvisor"),
        ("team/desktop:latest@microvm", {}, "microvm"),
    ],
)
def test_a_template_or_metadata_can_require_a_wall(template: str, metadata: dict[str, str], wall: str) -> None:
    assert parse_wall(template, metadata) == wall


@pytest.mark.parametrize("template", ["base@local", "base@paper", "base@gvisor@container", "base@\x1b[2J"])
def test_a_template_cannot_name_an_unknown_wall(template: str) -> None:
    with pytest.raises(E2bError, match="unknown wall"):
        parse_wall(template)
