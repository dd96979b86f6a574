"""Tests of files shown to a model with vision: rendered in a real desk, scaled there, and passed on."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator

import pytest
from PIL import Image

from hotdesk.config import Config
from hotdesk.desk.seam import Desk, Spec
from hotdesk.hands.picture import MAX_SIDE
from hotdesk.hands.toolbox import Toolbox
from hotdesk.host import Host
from hotdesk.tool import Observation

pytestmark = pytest.mark.container
MAKE = """
from docx import Document
from openpyxl import Workbook
from PIL import Image
from pptx import Presentation
from reportlab.pdfgen import canvas

pages = canvas.Canvas("report.pdf", pagesize=(400, 200))
for colour in ((1, 0, 0), (0, 0, 1)):
    pages.setFillColorRGB(*colour)
    pages.rect(0, 0, 400, 200, fill=1)
    pages.showPage()
pages.save()
book = Workbook()
book.active.append(["Month", "Sales"])
book.active.append(["May", 17])
book.save("sales.xlsx")
text = Document()
text.add_paragraph("A letter")
text.save("letter.docx")
slides = Presentation()
slides.slides.add_slide(slides.slide_layouts[0]).shapes.title.text = "A talk"
slides.save("talk.pptx")
scan = Image.new("RGB", (3136, 1000), "green")
scan.save("scan.webp")
Image.new("RGB", (30, 20), "red").save("moves.gif", save_all=True, append_images=[Image.new("RGB", (30, 20), "blue")])
"""


@pytest.fixture(scope="module")
async def hands(settings: Config) -> AsyncIterator[tuple[Desk, Toolbox]]:
    async with Host(settings, control=False) as host, host.open_desk(Spec(image="office")) as desk:
        done = await desk.run(["python3", "-c", MAKE])
        assert done.ok, done.stderr
        yield desk, await host.hands(desk)


def pixels(seen: Observation) -> Image.Image:
    assert seen.ok, seen.text
    return Image.open(io.BytesIO(seen.image)).convert("RGB")


async def test_a_page_of_a_pdf_is_shown(hands: tuple[Desk, Toolbox]) -> None:
    first = await hands[1].use("file_view", {"path": "report.pdf"})
    second = await hands[1].use("file_view", {"path": "report.pdf", "page": 2})
    assert (pixels(first).size, pixels(second).size) == ((MAX_SIDE, 784), (MAX_SIDE, 784))
    assert pixels(first).getpixel((700, 300)) == (255, 0, 0)
    assert pixels(second).getpixel((700, 300)) == (0, 0, 255)
    assert "Page 1 of 2" in first.text
    assert first.note == "file_view with page=2 shows the next page"
    missing = await hands[1].use("file_view", {"path": "report.pdf", "page": 3})
    assert (missing.ok, "page 3 does not exist: the last page of the document is 2" in missing.text) == (False, True)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["sales.xlsx", "letter.docx", "talk.pptx"])
async def test_an_office_document_is_shown_as_it_prints(hands: tuple[Desk, Toolbox], name: str) -> None:
    seen = await hands[1].use("file_view", {"path": name})
    shown = pixels(seen)
    assert max(shown.size) == MAX_SIDE
    assert min(shown.convert("L").tobytes()) < 100  # there is ink on the page
    assert "Page 1 of 1" in seen.text


async def test_pictures_are_scaled_and_converted(hands: tuple[Desk, Toolbox]) -> None:
    scan = await hands[1].use("file_view", {"path": "scan.webp"})
    assert (pixels(scan).size, scan.media) == ((MAX_SIDE, 500), "image/jpeg")
    moves = await hands[1].use("file_view", {"path": "moves.gif"})
    assert pixels(moves).getpixel((5, 5)) == (255, 0, 0)


@pytest.mark.long
async def test_a_damaged_document_is_described(hands: tuple[Desk, Toolbox]) -> None:
    desk, toolbox = hands
    await desk.write("broken.pdf", b"%PDF-1.7\nnothing")
    await desk.write("broken.xlsx", b"PK\x03\x04 nothing")
    for name in ("broken.pdf", "broken.xlsx"):
        seen = await toolbox.use("file_view", {"path": name})
        assert (seen.ok, seen.image) == (False, b"")
        assert "It cannot be shown: " in seen.text
