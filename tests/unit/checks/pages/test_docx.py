"""Tests of the check of documents: content too wide or too high for its place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checks.pages.made import SOURCE, frame, judged, line, only, told

from hotdesk.checks import find

AREA = [50, 50, 450, 740]
LONG = "These words need two lines"


def document(*frames: dict[str, Any], loose: list[object] | None = None) -> dict[str, Any]:
    placed = [{**each, "page": -1} for each in frames]
    return told(lambda seen: seen.update(area=AREA, frames=placed, loose=[loose or []]))


TWO = [line("These words"), line("need two lines", top=115)]


@pytest.mark.parametrize(
    ("held", "loose", "found"),
    [
        (frame("table", [0, 0, 400, 0]), [], ""),
        (frame("table", [0, 0, 500, 0]), [], "500 pt"),
        (frame("picture", [0, 0, 500, 20]), [], "500 pt"),
        (frame("row", [0, 0, 0, 30], LONG), TWO, ""),
        (frame("row", [0, 0, 0, 15], LONG), TWO, "needs 25 pt"),
        (frame("text box", [0, 0, 0, 15], LONG), TWO, "needs 25 pt"),
        (frame("frame", [0, 0, 0, 15], LONG), [], ""),
        (frame("row", [0, 0, 0, 15], LONG), [line(LONG, wide=90), line("between them"), *TWO], ""),
        (frame("row", [0, 0, 0, 15], LONG), [TWO[0], line("between them"), TWO[1]], ""),
        (frame("row", [0, 0, 0, 15], LONG), [TWO[0], line("1."), TWO[1]], "needs 25 pt"),
    ],
)
def test_content_that_does_not_fit_is_found(held: dict[str, Any], loose: list[object], found: str) -> None:
    verdict = judged(find("docx", {}), document(held, loose=loose))
    assert verdict.passed is not bool(found), verdict.findings
    if found:
        fault = only(verdict)
        assert (fault.rule, fault.where) == ("overflow", f"{held['kind']} 'Box 1'")
        assert found in fault.found


def test_text_beside_its_column_is_found_and_a_head_may_be_wider() -> None:
    seen = document()
    seen["pages"][0]["lines"].append(line("wide", 440, 300, wide=60))
    seen["pages"][0]["lines"].append(line("head", 440, 20, wide=60))
    fault = only(judged(find("docx", {}), seen))
    assert (fault.rule, fault.where) == ("overflow", "page 1, at 440, 300 pt")


def test_text_below_the_body_is_a_footer() -> None:
    seen = document()
    for page in seen["pages"]:
        page["links"] = [[[60, 720, 90, 730], "https://elsewhere.example/"], [[60, 745, 90, 755], SOURCE]]
    assert judged(find("docx", {"sources": [SOURCE], "footer": True}), seen).passed


@pytest.mark.parametrize(
    ("name", "drawn", "expect", "passes"),
    [
        ("Calibri", "Carlito", {}, True),
        ("Times New Roman", "Liberation Serif", {}, True),
        ("Noto Sans", "Noto Sans,Noto Sans Medium", {}, True),
        ("Wingdings", "DejaVu Sans", {}, True),
        ("Inter", "DejaVu Sans", {}, False),
        ("Calibri", "DejaVu Sans", {}, False),
        ("Inter", "DejaVu Sans", {"fonts": ["Inter"]}, True),
    ],
)
def test_fonts_are_installed_or_have_the_width_of_an_installed_one(
    name: str, drawn: str, expect: dict[str, object], passes: bool
) -> None:
    verdict = judged(find("docx", expect), told(lambda seen: seen.update(fonts=[[name, drawn]])))
    assert verdict.passed is passes
    if not passes:
        assert only(verdict).found == f"{name!r}, which is replaced by {drawn!r}"
