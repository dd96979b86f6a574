"""Which image a template means."""

from __future__ import annotations

import pytest

from hotdesk.api.e2b.templates import image_of


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("base", "base"),
        ("desktop", "e2b-desktop"),
        ("desktop:latest", "e2b-desktop"),
        ("team/desktop", "e2b-desktop"),
        ("code-interpreter-v1", "code-interpreter-v1"),
        ("mine", "mine"),
    ],
)
def test_a_template_means_an_image(template: str, image: str) -> None:
    assert image_of(template) == image
