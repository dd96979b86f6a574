"""Tests of the names of templates, tags and base images."""

from __future__ import annotations

import pytest

from hotdesk.api.e2b.builds import names
from hotdesk.api.e2b.responses import E2bError


@pytest.mark.parametrize(
    ("reference", "parts"),
    [("mine", ("mine", None)), ("mine:v1", ("mine", "v1")), ("acme/mine:v1", ("mine", "v1")), ("Mine", ("mine", None)),
     ("a.b_c-d:1.2", ("a.b_c-d", "1.2"))],
)  # fmt: skip
def test_a_reference_has_a_name_and_a_tag(reference: str, parts: tuple[str, str | None]) -> None:
    assert names.split_reference("acme", reference) == parts


@pytest.mark.parametrize(
    ("reference", "status"),
    [("other/mine", 403), ("", 400), (":v1", 400), ("mine:", 400), ("a b", 400), ("../x", 403), ("mine:v 1", 400),
     ("snapshot-abc", 400), ("m" * 129, 400), ("mine:" + "t" * 65, 400), ("mine:v1:v2", 400), ("mine\n", 200)],
)  # fmt: skip
def test_an_invalid_reference_is_refused(reference: str, status: int) -> None:
    if status == 200:
        assert names.split_reference("acme", reference) == ("mine", None)
        return
    with pytest.raises(E2bError) as caught:
        names.split_reference("acme", reference)
    assert caught.value.status == status


def test_a_build_without_a_tag_has_the_default_one() -> None:
    assert names.merge_tags(None, []) == ["default"]
    assert names.merge_tags("v1", ["v2", "v1"]) == ["v1", "v2"]
    with pytest.raises(E2bError, match="at most"):
        names.merge_tags(None, [f"t{number}" for number in range(names.MAX_TAGS + 1)])


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("e2bdev/base", ["base"]),
        ("e2bdev/base:latest", ["base"]),
        ("python", ["python", "python-latest"]),
        ("python:3.12", ["python-3.12"]),
        ("docker.io/library/python:3.12", ["python-3.12"]),
        ("acme/tools:1", ["acme-tools-1"]),
        ("mapped:1", ["office"]),
        ("mapped", ["other"]),
        ("python@sha256:" + "0" * 64, []),
        ("snapshot-abc", []),
        ("snapshot:abc", []),
        ("../../etc/passwd", []),
        ("a b", []),
        ("-x", []),
    ],
)
def test_a_base_image_is_found_by_its_local_name(reference: str, found: list[str]) -> None:
    assert names.list_local_images(reference, {"mapped:1": "office", "mapped": "other"}) == found


def test_advice_names_the_command_that_imports() -> None:
    assert "`hotdesk image import image.tar --name ubuntu-22.04`" in names.import_advice("ubuntu:22.04")
    assert "base_images" in names.import_advice("x@sha256:1")
    assert "\x1b" not in names.import_advice("\x1b[31m")
