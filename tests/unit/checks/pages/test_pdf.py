"""Tests of the check of PDF files: fonts."""

from __future__ import annotations

import pytest
from tests.unit.checks.pages.made import judged, only, told

from hotdesk.checks import find


@pytest.mark.parametrize(
    ("expect", "font", "passes"),
    [
        ({}, ["Inter-Bold", True], True),
        ({}, ["Inter-Bold", False], False),
        ({"fonts": ["Inter-Bold"]}, ["Inter-Bold", False], True),
        ({}, ["Helvetica-Bold", False], True),
        ({"embedded": True}, ["Helvetica-Bold", False], False),
        ({"embedded": True}, ["Helvetica-Bold", True], True),
    ],
)
def test_fonts_must_be_embedded_or_standard(expect: dict[str, object], font: list[object], passes: bool) -> None:
    seen = told(*(lambda seen, at=at: seen["pages"][at]["fonts"].append(font) for at in (0, 1)))
    verdict = judged(find("pdf", expect), seen)
    assert verdict.passed is passes
    assert str(font[0]) in str(verdict.values["fonts"])
    if not passes:
        fault = only(verdict)
        assert (fault.rule, fault.where, fault.found) == ("fonts", "page 1", f"{font[0]!r}, which is not embedded")


def test_a_file_that_cannot_be_opened_says_why() -> None:
    verdict = judged(find("pdf", {}), {"unreadable": "its end is missing", "pages": []})
    assert only(verdict).found == "a problem: the file cannot be opened as a PDF: its end is missing"
    assert "overlap" in verdict.looked_for
