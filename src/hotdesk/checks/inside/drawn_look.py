"""Inspects the pages of a PDF, text positions and pixels, with PDFium. Runs inside a clean desk.

Positions are in points from the upper left corner of the page as shown, after cropping and rotation.
"""

from __future__ import annotations

import ctypes
import math
import zlib
from collections.abc import Iterator
from typing import Any

import pypdfium2  # type: ignore[import-not-found]
import pypdfium2.raw as pdfium  # type: ignore[import-not-found]

MAX_TEXT_CHARS = 500
"""Maximum characters of a reported text."""
MOST_LINES = 2000
"""Maximum lines of one page."""
MOST_EACH = 500
"""Maximum pictures, links and fonts of one page."""
MOST_PAGES = 200
WIDEST = 900
MOST_PIXELS = 40_000_000
"""Maximum pixels of all pages together: many pages are rendered smaller."""
DEEPEST = 8
"""Maximum nesting of form objects."""
FINE = 20.0
"""Steps per point: PDFium returns integer positions."""
INVISIBLE = 3
"""Render mode of text that is not painted, such as that beneath a scanned page."""
Matrix = tuple[float, float, float, float, float, float]
Box = list[float]
PLAIN: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


class DrawnPage:
    def __init__(self, page: Any) -> None:
        self.page = page
        self.width, self.height = page.get_size()
        self.fonts: dict[str, bool] = {}
        """Whether each font is embedded, by name."""
        self.unmapped = 0
        """Number of characters without a Unicode mapping."""

    def describe(self) -> dict[str, object]:
        return {
            "size": [self.width, self.height],
            "lines": self.list_lines(),
            "pictures": self.list_pictures(),
            "links": self.list_links(),
            "unmapped": self.unmapped,
            "fonts": [[name[:MAX_TEXT_CHARS], embedded] for name, embedded in self.fonts.items()][:MOST_EACH],
        }

    def compute_box(self, left: float, bottom: float, right: float, top: float) -> Box:
        places = [self.turn_point(left, bottom), self.turn_point(right, top)]
        across, down = [x for x, _ in places], [y for _, y in places]
        return [round(each, 2) for each in (min(across), min(down), max(across), max(down))]

    def turn_point(self, x: float, y: float) -> tuple[float, float]:
        across, down = ctypes.c_int(), ctypes.c_int()
        width, height = int(self.width * FINE), int(self.height * FINE)
        pdfium.FPDF_PageToDevice(self.page, 0, 0, width, height, 0, x, y, across, down)
        return across.value / FINE, down.value / FINE

    def list_lines(self) -> list[list[object]]:
        """Return the text as lines without large gaps: box, text and manner."""
        reading = LineBuilder(self)
        text = self.page.get_textpage()
        for at in range(text.count_chars()):
            reading.take(text, at)
        reading.end()
        return reading.lines[: MOST_LINES + 1]

    def list_pictures(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for item, matrix in _iterate_objects(self.page, pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject, PLAIN):
            if pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_IMAGE and len(found) < MOST_EACH:
                found.append(
                    {"box": self.compute_box(*_compute_bounds(item, matrix)), **_describe_picture(self.page, item)}
                )
        return found

    def list_links(self) -> list[list[object]]:
        """Return every link to an address: box and target."""
        found: list[list[object]] = []
        at, link = ctypes.c_int(0), pdfium.FPDF_LINK()
        while len(found) < MOST_EACH and pdfium.FPDFLink_Enumerate(self.page, at, link):
            action = pdfium.FPDFLink_GetAction(link)
            size = pdfium.FPDFAction_GetURIPath(self.page.pdf, action, None, 0)
            place = pdfium.FS_RECTF()
            if size > 1 and pdfium.FPDFLink_GetAnnotRect(link, place):
                buffer = ctypes.create_string_buffer(size)
                pdfium.FPDFAction_GetURIPath(self.page.pdf, action, buffer, size)
                to = buffer.value.decode("utf-8", "replace")[:MAX_TEXT_CHARS]
                found.append([self.compute_box(place.left, place.bottom, place.right, place.top), to])
        return found


class LineBuilder:
    """Joins characters into lines."""

    def __init__(self, leaf: DrawnPage) -> None:
        self.leaf = leaf
        self.lines: list[list[object]] = []
        self.text = ""
        self.place: Box = []
        self.last: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
        """Left, right, baseline and size of the last character."""
        self.how = ""

    def take(self, text: Any, at: int) -> None:
        code = pdfium.FPDFText_GetUnicode(text, at)
        if pdfium.FPDFText_IsGenerated(text, at) == 1 or code in (0, 10, 13, 32, 160):
            if code in (10, 13):
                self.end()
            elif self.text and not self.text.endswith(" "):
                self.text += " "
            return
        self.leaf.unmapped += pdfium.FPDFText_HasUnicodeMapError(text, at) == 1
        left, bottom, right, top = text.get_charbox(at)
        x, y = ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetCharOrigin(text, at, x, y)
        size = max(top - bottom, pdfium.FPDFText_GetFontSize(text, at) * 0.6, 1.0)
        how = self.describe_manner(text, at)
        if self.text and (how != self.how or not self.goes_on(left, y.value, size)):
            self.end()
        self.text += chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
        self.how, self.last = how, (left, right, y.value, size)
        place = self.place or [left, bottom, right, top]
        self.place = [min(place[0], left), min(place[1], bottom), max(place[2], right), max(place[3], top)]

    def goes_on(self, left: float, baseline: float, size: float) -> bool:
        began, ended, before, _ = self.last
        if self.how == "turned":
            return True
        return abs(baseline - before) < size * 0.6 and began - size * 0.3 <= left <= ended + size * 1.5

    def describe_manner(self, text: Any, at: int) -> str:
        """Return a character's manner: upright (`""`), `turned` or `hidden`; record its font."""
        item = pdfium.FPDFText_GetTextObject(text, at)
        font = pdfium.FPDFTextObj_GetFont(item)
        if font:
            self.leaf.fonts[_read_font_name(font)] = pdfium.FPDFFont_GetIsEmbedded(font) == 1
        if pdfium.FPDFTextObj_GetTextRenderMode(item) == INVISIBLE:
            return "hidden"
        angle = pdfium.FPDFText_GetCharAngle(text, at) % (math.pi / 2)
        return "turned" if 0.02 < angle < math.pi / 2 - 0.02 else ""

    def end(self) -> None:
        if self.text.strip() and len(self.lines) <= MOST_LINES:
            self.lines.append([self.leaf.compute_box(*self.place), self.text.strip()[:MAX_TEXT_CHARS], self.how])
        self.text, self.place = "", []


def _read_font_name(font: Any) -> str:
    """Return a font's name without the prefix of an embedded subset."""
    buffer = ctypes.create_string_buffer(256)
    pdfium.FPDFFont_GetBaseFontName(font, buffer, 256)
    name = buffer.value.decode("utf-8", "replace")
    return name[7:] if len(name) > 7 and name[6] == "+" else name


def _iterate_objects(holder: Any, count: Any, get: Any, matrix: Matrix, depth: int = 0) -> Iterator[tuple[Any, Matrix]]:
    for at in range(count(holder)):
        item = get(holder, at)
        if pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_FORM and depth < DEEPEST:
            inner = pdfium.FS_MATRIX()
            pdfium.FPDFPageObj_GetMatrix(item, inner)
            both = _multiply_matrices((inner.a, inner.b, inner.c, inner.d, inner.e, inner.f), matrix)
            yield from _iterate_objects(
                item, pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject, both, depth + 1
            )
        else:
            yield item, matrix


def _multiply_matrices(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    g, h, i, j, k, m = then
    return (a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m)


def _compute_bounds(item: Any, matrix: Matrix) -> tuple[float, float, float, float]:
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top)
    a, b, c, d, e, f = matrix
    corners = [(x.value, y.value) for x in (left, right) for y in (bottom, top)]
    across, down = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
    return min(across), min(down), max(across), max(down)


def _describe_picture(page: Any, item: Any) -> dict[str, object]:
    width, height = ctypes.c_uint(), ctypes.c_uint()
    pdfium.FPDFImageObj_GetImagePixelSize(item, width, height)
    report: dict[str, object] = {"pixels": [width.value, height.value], "problem": "", "plain": False, "own": True}
    bitmap = pdfium.FPDFImageObj_GetBitmap(item)
    if not bitmap:
        return {**report, "problem": "a picture that cannot be decoded"}
    report["plain"] = is_plain(bitmap) and is_plain(pdfium.FPDFImageObj_GetRenderedBitmap(page.pdf, page, item))
    return report


def is_plain(bitmap: Any) -> bool:
    if not bitmap:
        return True
    height, stride = pdfium.FPDFBitmap_GetHeight(bitmap), pdfium.FPDFBitmap_GetStride(bitmap)
    wide = pdfium.FPDFBitmap_GetWidth(bitmap)
    kinds = {pdfium.FPDFBitmap_Gray: 1, pdfium.FPDFBitmap_BGR: 3}
    each = kinds.get(pdfium.FPDFBitmap_GetFormat(bitmap), 4)
    data = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), height * stride)
    pdfium.FPDFBitmap_Destroy(bitmap)
    row = data[:each] * wide
    return all(data[at * stride : at * stride + wide * each] == row for at in range(height))


def _compute_width(pages: list[tuple[float, float]]) -> int:
    shape = sum(height / width for width, height in pages)
    return max(16, min(WIDEST, int(math.sqrt(MOST_PIXELS / shape))))


def draw(page: Any, wide: int) -> tuple[list[int], bytes]:
    """Render a page; return its size and its compressed pixels."""
    width, height = page.get_size()
    scale = (1 - 1e-6) * min(wide / width, 2 * wide / height)  # PDFium rounds up
    bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False)
    data, stride, row = bytes(bitmap.buffer), bitmap.stride, bitmap.width * 3
    rgb = b"".join(data[at * stride : at * stride + row] for at in range(bitmap.height))
    packed = zlib.compress(rgb, 1)
    return [bitmap.width, bitmap.height, len(packed)], packed


def describe_error(error: Exception) -> str:
    """Explain why a file cannot be opened."""
    message = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return "the file has no readable page" if message.endswith("(PDFium: Success).") else message[:MAX_TEXT_CHARS]


def describe_tools() -> dict[str, str]:
    return {"PDFium": str(pypdfium2.PDFIUM_INFO), "pypdfium2": str(pypdfium2.PYPDFIUM_INFO)}


def read_pages(path: str) -> tuple[dict[str, object], list[bytes]]:
    file = pypdfium2.PdfDocument(path)
    sizes = [file.get_page_size(at) for at in range(len(file))]
    if not sizes or len(sizes) > MOST_PAGES or any(min(size) <= 0 for size in sizes):
        return {"count": len(sizes), "pages": [], "drawn": []}, []
    wide, pages, drawn, packed = _compute_width(sizes), [], [], []
    for at in range(len(sizes)):
        page = file[at]
        pages.append(DrawnPage(page).describe())
        size, pixels = draw(page, wide)
        drawn.append(size)
        packed.append(pixels)
    return {"count": len(sizes), "pages": pages, "drawn": drawn}, packed
