"""Tests of the check of slides: text within shapes, shapes on the slide, charts with their numbers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.checks.pages.made import chart, frame, judged, line, only, told

from hotdesk.checks import find
from hotdesk.checks.pages.document import Box, DocumentEvidence, Frame, PageContent, TextLine
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import MOST_SOUGHT, Layout, Seeking

TEXT = "Growth in every region of the world"
LINES = [line("Growth in every", 70, 300), line("region of the world", 70, 315)]


def deck(*frames: dict[str, Any], lines: list[Any] = LINES) -> dict[str, Any]:
    def change(seen: dict[str, Any]) -> None:
        seen["frames"] = list(frames)
        seen["pages"][0]["lines"] += lines

    return told(change)


FRAMES = [
    (frame("text", [60, 295, 300, 330], TEXT), ""),
    (frame("text", [60, 295, 300, 312], TEXT), "13 pt beyond the bottom edge of the shape"),
    (frame("text", [60, 310, 300, 330], TEXT), "10 pt beyond the top edge of the shape"),
    (frame("text", [60, 295, 150, 330], TEXT), "34 pt beyond the right edge of the shape"),
    (frame("text", [60, 295, 300, 312], TEXT, grows=True), ""),
    (frame("text", [60, 295, 300, 312], "Something that was never drawn"), ""),
    (frame("text", [60, 295, 300, 312], f"{TEXT} {'x' * 90}"), ""),
    (frame("text", [500, 400, 700, 450], "Away"), "a shape that extends beyond the right edge"),
    (frame("chart", [-50, 400, 300, 450]), "a shape that extends beyond the left edge"),
    (frame("table", [60, 400, 300, 850]), "a shape that extends beyond the bottom edge"),
    (frame("picture", [60, -90, 300, 100]), "a shape that extends beyond the top edge"),
    (frame("picture", [-9, -9, 609, 809]), ""),
    (frame("text", [500, 400, 700, 450]), ""),
]


@pytest.mark.parametrize(("held", "found"), FRAMES, ids=range(len(FRAMES)))
def test_text_stays_in_its_shape_and_shapes_on_their_slide(held: dict[str, Any], found: str) -> None:
    verdict = judged(find("pptx", {}), deck(held))
    assert verdict.passed is not bool(found), verdict.findings
    if found:
        fault = only(verdict)
        assert fault.rule == "overflow"
        assert fault.where.startswith("slide 1, at ")
        assert "'Box 1'" in fault.where
        assert fault.found.endswith(found)


def test_two_shapes_with_the_same_text_are_distinguished() -> None:
    again = [line("Growth in every", 370, 300), line("region of the world", 370, 315)]
    right, left = (frame("text", [at, 295, at + 200, 330], TEXT) for at in (360, 60))
    assert judged(find("pptx", {}), deck(right, left, lines=LINES + again)).passed


def test_numbers_and_bullets_between_lines_are_ignored() -> None:
    lines = [line("1.", 50, 300), LINES[0], line("2.", 50, 315), LINES[1]]
    held = frame("text", [60, 295, 300, 312], TEXT)
    assert only(judged(find("pptx", {}), deck(held, lines=lines))).rule == "overflow"


def test_endless_shapes_and_lines_are_checked_quickly() -> None:
    lines = tuple(TextLine(Box(0, at, 1, at + 1), "a") for at in range(2000))
    seeking = Seeking(20_000)
    while seeking.remaining > 0:
        before = seeking.remaining
        seeking.find("a" * 5000, lines)
        assert seeking.remaining < before
    assert seeking.find("a", lines) == []
    assert Seeking().remaining == MOST_SOUGHT


@pytest.mark.slow
def test_too_many_shapes_to_check_are_a_fault() -> None:
    frames = tuple(Frame(0, "text", "Box", Box(0, 0, 9, 9), "a" * 5000) for _ in range(4000))
    lines = tuple(TextLine(Box(0, at, 1, at + 1), f"b{at}") for at in range(2000))
    layout = Layout(
        PageExpectations(),
        DocumentEvidence(1, (PageContent((600, 4000), lines),), "", {}, frames=frames),
        (),
        frozenset(),
    )
    assert [fault.found for fault in layout.overflow()] == ["too many shapes"]


def test_an_unfilled_placeholder_of_the_template_is_found() -> None:
    fault = only(judged(find("pptx", {}), deck(frame("text", [60, 295, 300, 312], empty=True), lines=[])))
    assert (fault.rule, fault.where) == ("leftovers", "slide 1, 'Box 1'")


CHARTS = [
    ([chart([1.5, 2], [1.5, 2])], {}, ""),
    ([chart([0.1 + 0.2], [0.3])], {}, ""),
    ([chart([1, None, 3], [1, None, 3])], {}, ""),
    ([chart([1, 2], None)], {}, ""),
    ([chart([], [])], {}, "none"),
    ([chart([None], None)], {}, "none"),
    ([{**chart([1], [1]), "series": []}], {}, "none"),
    ([{**chart([1], [1]), "problem": "its workbook cannot be opened"}], {}, "cannot be opened"),
    ([chart([1, 2], [1, 3])], {}, "2 where the workbook has 3, at point 2"),
    ([chart([1, 2], [1])], {}, "2 where the workbook has nothing, at point 2"),
    ([chart([1], [1, 2])], {}, "nothing where the workbook has 2, at point 2"),
    ([chart([1], [1])], {"charts": 2}, "1"),
    ([chart([1], [1])], {"charts": {"min": 1}}, ""),
    ([], {"charts": {"min": 1}}, "0"),
]


@pytest.mark.parametrize(("charts", "expect", "found"), CHARTS, ids=range(len(CHARTS)))
def test_charts_carry_the_numbers_of_their_workbook(
    charts: list[dict[str, Any]], expect: dict[str, object], found: str
) -> None:
    verdict = judged(find("pptx", expect), told(lambda seen: seen.update(charts=charts)))
    assert verdict.passed is not bool(found), verdict.findings
    if found:
        fault = only(verdict)
        assert fault.rule == "charts"
        assert fault.found.endswith(found)


def test_one_row_without_numbers_is_found_beside_one_that_has_some() -> None:
    both = chart([1], [1])
    both["series"].append({"name": "2031", "shown": [], "book": []})
    assert only(judged(find("pptx", {}), told(lambda seen: seen.update(charts=[both])))).expected == "numbers in '2031'"
