"""Tests of the check of a file's pages: tables of faults in the reported data and in the drawn pixels."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageDraw
from tests.unit.checks.pages.made import HEIGHT, SOURCE, WIDTH, drawn, judged, line, only, picture, told

from hotdesk.checks import find
from hotdesk.checks.pages.document import Box, DocumentEvidence, PageContent, TextLine
from hotdesk.checks.pages.expect import PageExpectations
from hotdesk.checks.pages.layout import MOST_COMPARED, Layout
from hotdesk.checks.pages.pixels import is_blank
from hotdesk.checks.pages.reading import leads_to
from hotdesk.checks.seam import DrawnPixels, Evidence
from hotdesk.errors import BriefError

KINDS = ("docx", "pdf", "pptx")
FOOT = {"sources": [SOURCE], "footer": True}
Draw = Callable[[ImageDraw.ImageDraw], object]


def on(page: int, name: str, *more: object) -> Callable[[dict[str, Any]], object]:
    return lambda seen: seen["pages"][page][name].extend(more)


def put(page: int, name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda seen: seen["pages"][page].__setitem__(name, value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_faults_passes(kind: str) -> None:
    expect = {"pages": 2, "words": ["revenue", "it grew"], "title": "Outlook", "characters": 20, **FOOT}
    verdict = judged(find(kind, expect), told())
    word = "slide" if kind == "pptx" else "page"
    assert verdict.passed, verdict.findings
    assert f"'it grew' on {word} 1, 2" in verdict.held
    assert (verdict.values["pages"], verdict.values["links"], verdict.values["title"]) == (2, 2, "Outlook")
    assert verdict.values["words"] == 22
    assert verdict.tools == {"PDFium": "1"}
    assert len(verdict.pages) == 2


WRONG = [
    ({"pages": 3}, (), "pages", "", "2"),
    ({"pages": {"max": 1}}, (), "pages", "", "2"),
    ({}, (on(1, "lines", line("beyond", 590)),), "clipped", "page 2, at 590, 100 pt", "'beyond', which extends"),
    ({}, (on(0, "lines", line("low", top=830)),), "clipped", "page 1, at 60, 830 pt", "'low', which extends"),
    ({}, (on(0, "pictures", picture(-90, 300, 90, 400)),), "clipped", "page 1, at -90, 300 pt", "left edge"),
    ({}, (on(0, "lines", line("A caption here", top=104)),), "overlap", "page 1, at 60, 104 pt", "on top of 'Revenue"),
    ({}, (on(1, "pictures", picture(60, 300, 300, 400, plain=True)),), "media", "page 2", "a single colour"),
    ({}, (on(1, "pictures", picture(60, 300, 300, 400, problem="it is broken")),), "media", "page 2", "it is broken"),
    ({"pictures": {"min": 1}}, (), "media", "", "0"),
    ({}, (lambda seen: seen["media"].append(["a.png", "slide 2", "it is missing"]),), "media", "slide 2", "missing"),
    ({}, (put(0, "lines", []),), "text", "page 1", "0 letters"),
    ({}, (put(0, "lines", [line("Page")]), on(0, "pictures", picture(0, 0, 600, 700))), "text", "page 1", "4 letters"),
    ({"characters": 100}, (on(0, "lines", line("x" * 100, 60, 300, wide=300)),), "text", "page 2", "40"),
    ({"words": ["revenue", "profit"]}, (), "words", "", "no page with this text"),
    ({}, (on(1, "lines", line("Lorem ipsum dolor", top=300)),), "leftovers", "page 2, at 60, 300 pt", "Lorem ipsum"),
    ({}, (on(1, "lines", line("Click to add title", top=300)),), "leftovers", "page 2", "Click to add title"),
    ({}, (on(1, "lines", line("TODO numbers", top=300)),), "leftovers", "page 2", "TODO"),
    ({}, (on(1, "lines", line("Dear {{name}}", top=300)),), "leftovers", "page 2", "{{name}}"),
    ({}, (on(1, "lines", line("caf\ufffd", top=300)),), "garbled", "page 2, at 60, 300 pt", "caf"),
    ({}, (on(1, "lines", line("caf\u00c3\u00a9", top=300)),), "garbled", "page 2", "caf"),
    ({}, (on(1, "lines", line("it\u00e2\u20ac\u2122s", top=300)),), "garbled", "page 2", "it"),
    ({}, (put(1, "unmapped", 40),), "garbled", "page 2", "40 characters"),
    ({}, (on(0, "links", [[60, 300, 90, 310], "file:///home/user/a.pdf"]),), "links", "page 1", "file:///home"),
    ({}, (on(0, "links", [[60, 300, 90, 310], "http://localhost:8000/"]),), "links", "page 1", "localhost"),
    (FOOT, (put(1, "links", []),), "links", "page 2", "none"),
    (FOOT, (put(1, "links", [[[60, 300, 200, 312], SOURCE]]),), "links", "page 2", "none"),
    (FOOT, (on(1, "links", [[300, 750, 400, 762], "https://b.example/"]),), "links", "page 2", "https://b.example/"),
    (FOOT, (on(0, "lines", line("see www.b.example/x", 300, 760)),), "links", "page 1", "www.b.example/x"),
    ({"title": "Review"}, (), "title", "properties", "'Outlook'"),
    ({"title": True}, (lambda seen: seen.update(title="untitled"),), "title", "properties", "'untitled'"),
    ({"title": True}, (lambda seen: seen.update(title=""),), "title", "properties", "none"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("expect", "changes", "rule", "where", "found"), WRONG, ids=range(len(WRONG)))
def test_mistakes_are_found_and_reported_with_their_place(
    expect: dict[str, object], changes: tuple[Any, ...], rule: str, where: str, found: str
) -> None:
    fault = only(judged(find("pdf", expect), told(*changes)))
    assert (fault.rule, fault.where[: len(where)]) == (rule, where)
    assert found in fault.found


RIGHT = [
    ({"pages": {"min": 1, "max": 2}}, ()),
    ({}, (on(0, "lines", line("DRAFT", -20, 300, wide=900, how="turned")),)),
    ({}, (on(0, "lines", line("recognised words", 60, 100, how="hidden")),)),
    ({}, (on(0, "lines", line("Revenue of the year", 61, 101)),)),
    ({}, (on(0, "lines", line("i2", 60, 100)),)),
    ({}, (on(0, "pictures", picture(-5, -5, 605, 805)),)),
    ({}, (on(0, "pictures", picture(60, 300, 64, 304, plain=True)),)),
    ({}, (on(0, "pictures", picture(-90, 300, 90, 400, plain=True, own=False)),)),
    ({"pictures": 1}, (on(0, "pictures", picture(60, 300, 90, 400)),)),
    ({"text": False}, (put(0, "lines", []),)),
    ({"scanned": True}, (put(0, "lines", []),)),
    ({"scanned": [1]}, (put(0, "lines", []),)),
    ({"allow": ["todo"]}, (on(1, "lines", line("TODO lists, and how to keep them", top=300)),)),
    ({}, (on(1, "lines", line("Todos los pa\u00edses: \u00c3O PAULO, \u00e2me, 5 \u20ac", top=300)),)),
    ({**FOOT, "no_footer": [2]}, (put(1, "links", []),)),
    (FOOT, (put(1, "links", []), on(1, "lines", line(f"Source: {SOURCE}.", 300, 770)))),
    (FOOT, (put(1, "links", []), on(1, "lines", line("From https://a.example/", 300, 750), line("report", 300, 762)))),
    (FOOT, (on(0, "links", [[300, 750, 400, 762], "mailto:a@a.example"]),)),
    (FOOT, (on(0, "links", [[300, 300, 400, 312], "https://b.example/"]),)),
    ({"title": True}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("expect", "changes"), RIGHT, ids=range(len(RIGHT)))
def test_intended_layouts_are_no_fault(expect: dict[str, object], changes: tuple[Any, ...]) -> None:
    verdict = judged(find("pdf", expect), told(*changes))
    assert verdict.passed, verdict.findings


def number(pen: ImageDraw.ImageDraw) -> None:
    pen.text((300, 780), "2", fill="black")


def table_off(pen: ImageDraw.ImageDraw) -> None:
    for at in range(200, 300, 20):
        pen.line((100, at, WIDTH, at), fill="black")


def band(pen: ImageDraw.ImageDraw) -> None:
    pen.rectangle((0, 0, WIDTH, 60), fill="navy")
    pen.rectangle((0, 0, 20, HEIGHT), fill="teal")
    pen.line((0, 400, WIDTH, 400), fill="black", width=2)


def slope(pen: ImageDraw.ImageDraw) -> None:
    for at in range(HEIGHT):
        pen.line((0, at, WIDTH, at), fill=(at // 4, at // 4, 200))


def foot(pen: ImageDraw.ImageDraw) -> None:
    for at in range(60, 500, 8):
        pen.line((at, 10, at, 30), fill="black")
        pen.line((at, 770, at, 790), fill="black")


PIXELS: list[tuple[Draw, tuple[str, ...], str]] = [
    (lambda _: None, ("blank",), "page 2"),
    (number, ("blank",), "page 2"),
    (slope, ("blank",), "page 2"),
    (foot, ("blank",), "page 2"),
    (table_off, ("clipped",), "page 2, right edge, 200 pt from the top"),
    (band, (), ""),
]


@pytest.mark.parametrize(("draw", "rules", "where"), PIXELS, ids=["white", "number", "slope", "foot", "off", "band"])
def test_the_drawn_pixels_count_more_than_the_reported_data(draw: Draw, rules: tuple[str, ...], where: str) -> None:
    verdict = judged(find("pdf", {}), told(), [drawn(), drawn(draw)])
    assert tuple(fault.rule for fault in verdict.faults) == rules
    assert all(fault.where == where for fault in verdict.faults)


def test_a_page_may_be_blank_when_the_brief_says_so() -> None:
    blank = told(put(1, "lines", []))
    assert judged(find("pdf", {"blank": [2], "characters": 10}), blank, [drawn(), drawn(lambda _: None)]).passed


def test_a_picture_may_reach_the_edge() -> None:
    shown = told(on(1, "pictures", picture(100, 190, WIDTH, 310)))
    assert judged(find("pdf", {}), shown, [drawn(), drawn(table_off)]).passed


def test_every_page_must_have_been_drawn_in_its_shape() -> None:
    check = find("pdf", {})
    assert only(judged(check, told(), [drawn()])).found == "1"
    assert only(
        judged(check, told(), [drawn(), DrawnPixels(800, 600, bytes(800 * 600) + bytes(range(250)) * 3840)])
    ).where == ("page 2")
    assert only(judged(check, told(lambda seen: seen.update(count=3)))).expected == "3 rendered pages"
    assert {each.rule for each in judged(check, told(lambda seen: seen.update(count=0, pages=[]))).faults} == {
        "drawn",
        "pages",
    }
    long = judged(check, told(lambda seen: seen.update(count=201, pages=[])))
    assert only(long).found == "201"


def test_pages_wider_than_requested_are_not_accepted() -> None:
    wide = DrawnPixels(1000, 4, bytes(12000))
    verdict = judged(find("pdf", {}), told(), [wide, wide])
    assert verdict.pages == ()
    assert only(verdict).rule == "drawn"


@pytest.mark.slow
def test_at_most_sixty_pages_and_few_faults_of_one_rule_are_shown() -> None:
    seen = told(lambda seen: seen.update(count=70, pages=seen["pages"] * 35))
    verdict = judged(find("pdf", {"characters": 1000}), seen)
    assert len(verdict.pages) == 60
    assert {fault.rule for fault in verdict.faults} == {"text"}
    assert len(verdict.findings) == 1


def test_quoted_text_is_escaped() -> None:
    fault = only(judged(find("pdf", {}), told(on(0, "lines", line("TODO \x1b[2J\u202eevil", top=300)))))
    assert str(fault).isprintable()
    assert "\\x1b" in fault.found


@pytest.mark.slow
def test_many_lines_in_one_place_are_checked_quickly() -> None:
    lines = tuple(TextLine(Box(at * 2.0, 10, at * 2.0 + 1, 20), f"word{at}") for at in range(2000))
    leaves = tuple(PageContent((600, 800), lines) for _ in range(200))
    layout = Layout(PageExpectations(), DocumentEvidence(200, leaves, "", {}), (), frozenset())
    assert MOST_COMPARED < 2000 * 2000
    assert [fault.found for fault in layout.overlap()] == ["too many lines close together"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(0, "pictures", [picture(9, 9, 0, 0)]), "negative size"),
        (put(0, "links", [[[0, 0, 1, 1], SOURCE]] * 501), "too many links: at most 500"),
        (put(0, "lines", [line("a")] * 2001), "too many lines: at most 2000"),
        (put(0, "lines", [line("a" * 501)]), "invalid line"),
        (put(0, "size", [0, 800]), "no size"),
        (put(0, "size", [600, 1e9]), "out of range"),
        (lambda seen: seen.update(frames=[{}]), "invalid frame"),
        (lambda seen: seen.update(count=True), "no count of pages"),
    ],
)
def test_impossible_evidence_counts_as_a_file_that_does_not_open(change: Any, said: str) -> None:
    fault = only(judged(find("pdf", {}), told(change)))
    assert fault.rule == "opens"
    assert said in fault.found


@pytest.mark.parametrize(
    ("to", "source", "leads"),
    [
        (SOURCE, SOURCE, True),
        (f"{SOURCE}/", SOURCE, True),
        (f"{SOURCE}/2030?page=2", SOURCE, True),
        (f"{SOURCE}#chart", SOURCE, True),
        ("HTTP://A.EXAMPLE/report", SOURCE, True),
        ("a.example/report", SOURCE, True),
        (f"{SOURCE}-of-somebody-else", SOURCE, False),
        ("https://a.example/", SOURCE, False),
        ("https://a.example/REPORT", SOURCE, False),
        ("https://a.example.evil.example/report", "https://a.example", False),
        ("https://user@a.example/report", SOURCE, False),
        ("https://a.example@evil.example/report", "https://a.example", False),
        ("javascript:https://a.example/report", SOURCE, False),
        ("ftp://a.example/report", SOURCE, False),
        ("https://[", SOURCE, False),
        ("", SOURCE, False),
    ],
)
def test_an_address_must_be_a_listed_source_or_below_one(to: str, source: str, leads: bool) -> None:
    assert leads_to(to, source) is leads


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"page": 3}, "expect has no option 'page'"),
        ({"pages": "20"}, "pages = 20"),
        ({"pages": True}, "pages = 20"),
        ({"pages": -1}, "pages = 20"),
        ({"pages": {"min": 5, "max": 2}}, "min = 5"),
        ({"pages": {"least": 5}}, "min = 5"),
        ({"pages": {}}, "min = 5"),
        ({"charts": {"min": "1"}}, "charts = 3"),
        ({"blank": 2}, "blank = [2]"),
        ({"blank": [0]}, "from 1"),
        ({"words": []}, 'words = ["Revenue"'),
        ({"words": [" "]}, 'words = ["Revenue"'),
        ({"characters": 1.5}, "characters = 100"),
        ({"text": "yes"}, "text = false"),
        ({"scanned": "all"}, "scanned = [3, 4]"),
        ({"sources": ["a.example"]}, "https://"),
        ({"footer": True}, "footer = true needs a list of sources"),
        ({"no_footer": ["1"]}, "no_footer = [1, 20]"),
        ({"fonts": "Inter"}, 'fonts = ["Inter"]'),
        ({"embedded": 1}, "embedded = true"),
        ({"title": ""}, "title = true"),
        ({"allow": [1]}, 'allow = ["TODO"]'),
    ],
)
def test_invalid_expectations_are_refused_with_a_remedy(kind: str, expect: dict[str, object], said: str) -> None:
    with pytest.raises(BriefError) as error:
        find(kind, expect)
    assert said in str(error.value)
    assert str(error.value).startswith(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_states_what_it_does_not_cover(kind: str) -> None:
    check = find(kind, {})
    assert (check.image, check.alone, check.beside) == ("office", False, ())
    assert "the truth of its statements" in check.not_checked
    assert len(check.not_checked) > 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**400), 10**400) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


SMALL = DrawnPixels(30, 40, bytes(range(240)) * 15)


def spoil(seen: Any, path: list[int], value: object) -> None:
    for step in path:
        keys = list(seen) if isinstance(seen, dict) else list(range(len(seen)))
        if not keys:
            return
        key = keys[step % len(keys)]
        if not isinstance(seen[key], dict | list) or step % 5 == 0:
            seen[key] = value
            return
        seen = seen[key]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(path=st.lists(st.integers(0, 10**6), min_size=1, max_size=6), value=JSON)
def test_malformed_evidence_never_raises(kind: str, path: list[int], value: object) -> None:
    seen = told(on(0, "pictures", picture(0, 0, 9, 9)))
    spoil(seen, path, value)
    verdict = find(kind, {"words": ["revenue"], **FOOT}).judge(Evidence(json.dumps(seen).encode(), (SMALL,) * 2))
    assert verdict.looked_for
    assert all(str(fault).isprintable() for fault in verdict.faults)
    assert all(isinstance(value, str | int) for value in verdict.values.values())


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(width=st.integers(1, 12), height=st.integers(1, 40), data=st.data())
def test_any_pixels_can_be_judged(width: int, height: int, data: st.DataObject) -> None:
    rgb = data.draw(st.binary(min_size=width * height * 3, max_size=width * height * 3))
    page = DrawnPixels(width, height, rgb)
    assert is_blank(page) in (True, False)
    verdict = judged(find("pdf", {}), told(), [page, page])
    assert verdict.looked_for
