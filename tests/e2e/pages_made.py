"""Makes good and wrong documents inside a desk, with an author's tools; each page has one fault."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx  # type: ignore[import-not-found]
import pptx  # type: ignore[import-not-found]
import pypdf  # type: ignore[import-not-found]
from docx.enum.table import WD_ROW_HEIGHT_RULE  # type: ignore[import-not-found]
from docx.oxml import OxmlElement, parse_xml  # type: ignore[import-not-found]
from docx.oxml.ns import qn  # type: ignore[import-not-found]
from docx.shared import Inches as Wide  # type: ignore[import-not-found]
from docx.shared import Pt as High
from PIL import Image, ImageDraw
from pptx.chart.data import CategoryChartData  # type: ignore[import-not-found]
from pptx.enum.chart import XL_CHART_TYPE  # type: ignore[import-not-found]
from pptx.enum.shapes import MSO_SHAPE  # type: ignore[import-not-found]
from pptx.enum.text import MSO_AUTO_SIZE  # type: ignore[import-not-found]
from pptx.util import Inches, Pt  # type: ignore[import-not-found]
from reportlab.lib.pagesizes import A4  # type: ignore[import-untyped]
from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]
from reportlab.pdfbase import pdfmetrics  # type: ignore[import-untyped]
from reportlab.pdfbase.ttfonts import TTFont  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

SOURCE = "https://a.example/report"
OTHER = "https://a.example.evil.example/report"
LONG = "Revenue grew in every region, and margins held. " * 12
ROOM = "These words need some more room than a single line of it has to give them, whoever may read it"
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHAPES = "http://schemas.microsoft.com/office/word/2010/wordprocessingShape"
BOX = f"""<w:r xmlns:w="{WORDS}" xmlns:wps="{SHAPES}"
 xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"
 xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"
 xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:AlternateContent><mc:Choice Requires="wps">
 <w:drawing><wp:inline><wp:extent cx="2000000" cy="HIGH"/><wp:docPr id="9" name="Box 9"/><a:graphic><a:graphicData
 uri="{SHAPES}"><wps:wsp><wps:cNvSpPr txBox="1"/><wps:spPr><a:xfrm><a:off x="0" y="0"/><a:ext cx="2000000" cy="HIGH"/>
 </a:xfrm><a:prstGeom prst="rect"><a:avLst/></a:prstGeom></wps:spPr><wps:txbx><w:txbxContent><w:p><w:r><w:t>TEXT</w:t>
 </w:r></w:p></w:txbxContent></wps:txbx><wps:bodyPr/></wps:wsp></a:graphicData></a:graphic></wp:inline></w:drawing>
 </mc:Choice></mc:AlternateContent></w:r>"""
Add = Callable[[Any], object]


def picture(*, plain: bool = False) -> io.BytesIO:
    image = Image.new("RGB", (300, 200), "#4477aa")
    if not plain:
        ImageDraw.Draw(image).ellipse((40, 40, 200, 160), fill="#ffcc33")
    made = io.BytesIO()
    image.save(made, "PNG")
    made.seek(0)
    return made


def nothing(_: object) -> None:
    """Add nothing."""


def pdf(path: str, *adds: Add, elsewhere: int = -1, without: int = -1, font: str = "Good") -> None:
    pdfmetrics.registerFont(TTFont("Good", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))
    canvas = Canvas(path, pagesize=A4)
    canvas.setTitle("Outlook")
    for page, add in enumerate(adds):
        canvas.setFont(font, 12)
        canvas.drawString(72, 760, f"Revenue of the year, page {page + 1}")
        canvas.drawString(72, 730, "It grew in every region, and margins held: caf\u00e9, na\u00efve, \u20ac 5.")
        if page != without:
            canvas.drawString(72, 40, "Source: a report")
            canvas.linkURL(OTHER if page == elsewhere else SOURCE, (72, 36, 300, 52))
        add(canvas)
        canvas.showPage()
    canvas.save()


def image(left: float, *, plain: bool = False) -> Add:
    return lambda canvas: canvas.drawImage(ImageReader(picture(plain=plain)), left, 400, 300, 200)


def words(text: str, left: float = 72, up: float = 600) -> Add:
    return lambda canvas: canvas.drawString(left, up, text)


def grid(canvas: Any) -> None:
    for at in range(6):
        canvas.line(300, 300 + at * 20, 700, 300 + at * 20)


def recognised(canvas: Any) -> None:
    canvas.saveState()
    canvas.translate(300, 400)
    canvas.rotate(45)
    canvas.drawCentredString(0, 0, "DRAFT OF THE REPORT " * 4)
    canvas.restoreState()
    hidden = canvas.beginText(80, 728)
    hidden.setTextRenderMode(3)
    hidden.textLine("recognised words")
    canvas.drawText(hidden)


def scan(canvas: Any) -> None:
    page = Image.new("RGB", (1000, 1400), "white")
    ImageDraw.Draw(page).text((100, 200), LONG.replace(". ", ".\n"), fill="black", font_size=30)
    canvas.drawImage(ImageReader(page), 0, 0, *A4)


def make_pdfs() -> None:
    pdf("good.pdf", image(72), recognised)
    pdf(
        "wrong.pdf", words("beyond the edge", 550), image(450), grid, words("A caption in the wrong place", 90, 732),
        image(72, plain=True), words("Dear {{ customer }}, lorem ipsum"), words("The caf\u00c3\u00a9 is open"), nothing,
        nothing, nothing, elsewhere=7, without=8,
    )  # fmt: skip
    canvas = Canvas("scanned.pdf", pagesize=A4)
    for add in (scan, lambda canvas: canvas.drawString(300, 30, "2")):
        add(canvas)
        canvas.showPage()
    canvas.save()
    pdf("unembedded.pdf", nothing, font="Helvetica")
    data = Path("unembedded.pdf").read_bytes()
    Path("unembedded.pdf").write_bytes(data.replace(b"/BaseFont /Helvetica ", b"/BaseFont /Comicmono "))
    Path("truncated.pdf").write_bytes(Path("good.pdf").read_bytes()[:-900])
    pypdf.PdfWriter().write("empty.pdf")
    made = pypdf.PdfWriter(clone_from="good.pdf")
    made.pages[0].cropbox = pypdf.generic.RectangleObject([100, 0, 595, 842])
    made.pages[1].rotate(90)
    made.write("cropped.pdf")
    made.encrypt("secret")
    made.write("encrypted.pdf")
    Path("other.pdf").write_bytes(b"PK\x03\x04 and so on")


def deck(path: str, *adds: Add, elsewhere: int = -1) -> None:
    made = pptx.Presentation()
    made.core_properties.title = "Outlook"
    for at, add in enumerate(adds):
        slide = made.slides.add_slide(made.slide_layouts[1 if add is empty_place else 5])
        slide.shapes.title.text = f"Revenue {at + 1}"
        run = text_box(slide, "", 0.5, 6.9, 6, 0.4).text_frame.paragraphs[0].add_run()
        address = OTHER if at == elsewhere else SOURCE
        run.text, run.font.size, run.hyperlink.address = "Source: report", Pt(12), address
        add(slide)
    made.save(path)


def text_box(slide: Any, text: str, left: float, top: float, width: float, height: float) -> Any:
    box = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(width), Inches(height))
    box.text_frame.word_wrap = True
    box.text_frame.text = text
    return box


def chart(slide: Any) -> None:
    data = CategoryChartData()
    data.categories = ["North", "South", "East"]
    data.add_series("2029", (1.5, 2.5, 4.0))
    data.add_series("2030", (2.0, None, 5.25))
    place = (Inches(0.6), Inches(1.6), Inches(5), Inches(4))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, *place, data)


def full(slide: Any) -> None:
    """Add everything a slide may have: chart, picture, list, a shape with a shadow, decoration beyond its edge."""
    chart(slide)
    slide.shapes.add_picture(picture(), Inches(6), Inches(2), Inches(3), Inches(2))
    text_box(slide, "Growth in every region\nMargins held", 6, 4.4, 3, 1.2)
    shape = slide.shapes.add_shape(MSO_SHAPE.ROUNDED_RECTANGLE, Inches(6), Inches(5.6), Inches(3), Inches(0.8))
    shape.text_frame.text = "Key message"
    slide.shapes.add_shape(MSO_SHAPE.OVAL, Inches(-1), Inches(-1), Inches(2), Inches(2))


def hide(slide: Any) -> None:
    slide._element.set("show", "0")


def fixed(slide: Any) -> None:
    text_box(slide, LONG[:96], 1, 2, 3, 0.6).text_frame.auto_size = MSO_AUTO_SIZE.NONE


def grouped(slide: Any) -> None:
    group = slide.shapes.add_group_shape()
    box = group.shapes.add_textbox(Inches(8.5), Inches(3), Inches(4), Inches(1))
    box.text_frame.text = "Away"


def covered(slide: Any) -> None:
    text_box(slide, "Growth in every region", 1, 3, 4, 0.6)
    text_box(slide, "A caption put in the wrong place", 1.3, 3.02, 4, 0.6)


def empty_place(slide: Any) -> None:
    text_box(slide, "Growth", 1, 5, 4, 0.6)


def strange(slide: Any) -> None:
    text_box(slide, "Growth", 1, 3, 4, 1).text_frame.paragraphs[0].runs[0].font.name = "Nowhere Grotesk"


def plain_picture(slide: Any) -> None:
    slide.shapes.add_picture(picture(plain=True), Inches(2), Inches(2), Inches(3), Inches(2))


def make_decks() -> None:
    deck("good.pptx", full, hide)
    deck(
        "wrong.pptx", fixed, grouped, covered, empty_place, strange, nothing, chart, chart, plain_picture,
        lambda slide: slide.shapes.add_picture(picture(), Inches(2), Inches(2)), elsewhere=5,
    )  # fmt: skip
    parts = {
        r"ppt/charts/chart7\d*\.xml|ppt/charts/chart1\.xml": lambda data: data.replace(b">4.0<", b">40.0<"),
        r"ppt/charts/chart(?!1\.).*\.xml": lambda data: re.sub(rb"<c:val>.*?</c:val>", b"", data, flags=re.DOTALL),
        r"ppt/media/image2\.png": lambda data: data[:200],
    }
    for shape, how in parts.items():
        change("wrong.pptx", shape, how)
    deck("lost.pptx", full)
    change("lost.pptx", r"ppt/media/.*", lambda _: None)
    Path("other.pptx").write_bytes(Path("good.pdf").read_bytes())
    Path("truncated.pptx").write_bytes(Path("good.pptx").read_bytes()[:-500])


def document(path: str, *adds: Add, footer: str = SOURCE) -> None:
    made = docx.Document()
    made.core_properties.title = "Outlook"
    made.sections[0].footer.paragraphs[0].text = f"Source: {footer}"
    for at, add in enumerate(adds):
        made.add_heading(f"Revenue {at + 1}", 1)
        made.add_paragraph(LONG)
        add(made)
        if at + 1 < len(adds):
            made.add_page_break()
    made.save(path)


def table(made: Any, text: str, points: float, width: float = 0) -> None:
    rows = made.add_table(2, 2, style="Table Grid")
    rows.autofit = not width
    for row in rows.rows:
        row.height_rule, row.height = WD_ROW_HEIGHT_RULE.EXACTLY, High(points)
        for cell in row.cells:
            cell.text = text
    for column in rows.columns if width else ():
        column.width = Wide(width)


def box(made: Any, text: str, high: int) -> None:
    made.add_paragraph()._p.append(parse_xml(BOX.replace("HIGH", str(high)).replace("TEXT", text)))


def whole(made: Any) -> None:
    made.add_picture(picture(), width=Wide(3))
    table(made, "Region", 30)
    made.add_paragraph("An item of a list", style="List Bullet")
    made.add_paragraph("An item with a number", style="List Number")


def framed(made: Any) -> None:
    paragraph = made.add_paragraph("A frame: " + ROOM)
    place = OxmlElement("w:framePr")
    for name, value in {"w": "2000", "h": "400", "hRule": "exact", "wrap": "around"}.items():
        place.set(qn(f"w:{name}"), value)
    paragraph._p.get_or_add_pPr().insert(0, place)


def make_documents() -> None:
    document("good.docx", whole, lambda made: box(made, "A text in a box", 500_000))
    document(
        "wrong.docx", lambda made: table(made, "Wide", 30, 4.5), lambda made: table(made, ROOM, 20), framed,
        lambda made: made.add_picture(picture(), width=Wide(7.2)), lambda made: box(made, "A box: " + ROOM, 250_000),
        lambda made: made.add_page_break(), lambda made: made.add_paragraph("TODO: numbers"), strange_run, footer=OTHER,
    )  # fmt: skip
    document("lost.docx", whole)
    change("lost.docx", r"word/media/.*", lambda _: None)
    Path("other.docx").write_bytes(Path("good.pptx").read_bytes())
    Path("encrypted.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4096))


def strange_run(made: Any) -> None:
    made.add_paragraph().add_run("Growth").font.name = "Nowhere Grotesk"


def change(path: str, shape: str, how: Callable[[bytes], bytes | None]) -> None:
    """Change the parts of a package that match `shape`; `how` returns None to remove a part."""
    with zipfile.ZipFile(path) as source:
        parts = [(name, source.read(name)) for name in source.namelist()]
    with zipfile.ZipFile(path, "w") as target:
        for name, data in parts:
            changed = how(data) if re.fullmatch(shape, name) else data
            if changed is not None:
                target.writestr(name, changed)


if __name__ == "__main__":
    make_pdfs()
    make_decks()
    make_documents()
