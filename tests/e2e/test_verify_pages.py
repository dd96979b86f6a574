"""Tests of verifying real PDFs, documents and slides: made at one desk, rendered in a clean one, judged here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hotdesk.checks import find
from hotdesk.checks.seam import Verdict
from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.host import Host

pytestmark = [pytest.mark.container, pytest.mark.timeout(180)]

MAKES = Path(__file__).with_name("pages_made.py")
FOOT = {"sources": ["https://a.example/report"], "footer": True}


async def verdict(desk: Desk, name: str, **expect: object) -> Verdict:
    check = find(name.rpartition(".")[2], expect)
    return check.judge(await check.gather(desk, name))


@pytest.fixture(scope="module")
async def desk(settings: Config) -> AsyncIterator[Desk]:
    async with Host(settings) as host, host.open_desk(Spec(image="office", sterile=True)) as desk:
        await desk.write("made.py", MAKES.read_bytes())
        done = await desk.run(["python3", "made.py"], timeout=60)
        assert done.exit_code == 0, done.stderr[-2000:]
        await verdict(desk, "good.pptx")  # and with its office running, which stays
        yield desk


def told(seen: Verdict) -> list[tuple[str, str]]:
    """List the broken rules with their page, or with a description where there is no page."""
    return [(fault.rule, fault.where.partition(",")[0] or fault.found) for fault in seen.faults]


GOOD = [
    ("good.pdf", {"fonts": "DejaVuSans", "links": 2, "pictures": 1, "charts": 0}),
    ("good.pptx", {"fonts": "Calibri", "links": 2, "pictures": 1, "charts": 1}),
    ("good.docx", {"fonts": "Calibri, Cambria", "links": 0, "pictures": 1, "charts": 0}),
]


@pytest.mark.parametrize(("name", "values"), GOOD)
async def test_a_good_file_passes_and_its_pages_are_shown(desk: Desk, name: str, values: dict[str, object]) -> None:
    seen = await verdict(desk, name, pages=2, words=["Revenue"], title="Outlook", **FOOT)
    assert seen.passed, seen.findings
    assert {"pages": 2, "title": "Outlook", **values}.items() <= seen.values.items()
    assert seen.tools["PDFium"]
    assert ("LibreOffice" in seen.tools) is not name.endswith("pdf")
    assert [page.width for page in seen.pages] == [900, 900]


WRONG = {
    "wrong.pdf": [
        ("clipped", "page 1"), ("clipped", "page 2"), ("clipped", "page 3"), ("overlap", "page 4"),
        ("media", "page 5"), ("leftovers", "page 6"), ("garbled", "page 7"), ("links", "page 8"), ("links", "page 9"),
    ],
    "scanned.pdf": [("blank", "page 2"), ("text", "page 1"), ("links", "page 1"), ("links", "page 2")],
    "unembedded.pdf": [("fonts", "page 1")],
    "cropped.pdf": [("clipped", "page 1")] * 4 + [("links", "page 2")],
    "wrong.pptx": [
        ("overflow", "slide 1"), ("overflow", "slide 2"), ("overlap", "slide 3"),
        ("fonts", "'Nowhere Grotesk', which is replaced by 'Noto Sans'"), ("media", "slide 10"), ("media", "slide 9"),
        ("charts", "slide 7"), ("charts", "slide 8"), ("leftovers", "slide 4"), ("links", "slide 6"),
    ],
    "lost.pptx": [("media", "slide 1")],
    "wrong.docx": [
        ("blank", "page 7"), ("overflow", "table 'table 1'"), *[("overflow", "row 'table 2")] * 4,
        ("overflow", "picture 'Picture 1'"), ("overflow", "frame 'A frame: These words need some more room'"),
        ("overflow", "text box 'Box 9'"), ("fonts", "'Nowhere Grotesk', which is replaced by 'Noto Sans'"),
        ("leftovers", "page 8"), *[("links", f"page {at}") for at in range(1, 10)],
    ],
    "lost.docx": [("media", "word/document.xml")],
}  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WRONG)
async def test_a_fault_is_found_on_its_page(desk: Desk, name: str) -> None:
    assert told(await verdict(desk, name, **FOOT)) == WRONG[name]


UNOPENED = {
    "truncated.pdf": "the file is truncated",
    "empty.pdf": "the file has no readable page",
    "encrypted.pdf": "Incorrect password",
    "other.pdf": "does not start with a PDF header",
    "other.pptx": "not a zip file",
    "truncated.pptx": "not a zip file",
    "other.docx": "the content of the file does not match its suffix",
    "encrypted.docx": "the file is encrypted",
    "missing.docx": "No such file",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", UNOPENED)
async def test_a_file_that_cannot_be_opened_is_reported_with_the_reason(desk: Desk, name: str) -> None:
    seen = await verdict(desk, name)
    assert [fault.rule for fault in seen.faults] == ["opens"]
    assert UNOPENED[name] in seen.faults[0].found
    assert seen.pages == ()
