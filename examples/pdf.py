"""Writes PDFs for the examples: texts at positions, or pictures of pages. Texts are not compressed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 595, 842
"""Points of a page of A4."""
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica%s /Encoding /WinAnsiEncoding >>"
NARROW = {" ": 278, "\xa0": 278, ".": 278, ",": 278, "'": 191, "-": 333, "E": 667, "U": 722, "R": 722, "%": 889}
"""Widths of Helvetica's characters in numbers, in thousandths of the font size; a digit is 556."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text on a page: `x` from the left, `y` from the top, in points."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False
    right: bool = False
    """Whether it ends at `x`; only for numbers."""
    white: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """A whole page as a greyscale JPEG."""

    data: bytes
    width: int
    height: int


def column(texts: Sequence[str], *, size: int = 10, left: int = 60) -> bytes:
    """Return one page with lines of text, one below the other."""
    shown = b"".join(b"(%s) Tj T*\n" % escaped(text) for text in texts)
    return file([b"BT /F1 %d Tf 16 TL %d 770 Td\n%sET\n" % (size, left, shown)], [])


def pages(texts: Sequence[Sequence[Text]]) -> bytes:
    """Return pages with texts at their positions."""
    return file([b"".join(map(placed, page)) for page in texts], [])


def scans(pictures: Sequence[Picture]) -> bytes:
    """Return pages that are pictures, as a scanner makes them."""
    shown = [b"q %d 0 0 %d 0 0 cm /I%d Do Q\n" % (WIDTH, HEIGHT, at) for at in range(len(pictures))]
    return file(shown, pictures)


def placed(text: Text) -> bytes:
    """Return the operators that draw a text."""
    x = text.x - width(text.text) * text.size if text.right else text.x
    font, grey = b"F2" if text.bold else b"F1", b"1 g " if text.white else b""
    told = (grey, font, text.size, x, HEIGHT - text.y, escaped(text.text))
    return b"q BT %s/%s %g Tf %.2f %.2f Td (%s) Tj ET Q\n" % told


def width(number: str) -> float:
    """Return the width of a number, in font sizes."""
    return sum(NARROW.get(character, 556) for character in number) / 1000


def file(contents: Sequence[bytes], pictures: Sequence[Picture]) -> bytes:
    """Return a file: catalog, pages, fonts, and pictures if there are any."""
    first = 3  # the object number of the first page; each page is followed by its content
    fonts = first + 2 * len(contents)
    bold = b"/F2 %d 0 R " % (fonts + 1) if len(contents[0]) and b"/F2 " in b"".join(contents) else b""
    images = [(b"/I%d %d 0 R " % (at, fonts + 1 + bool(bold) + at)) for at in range(len(pictures))]
    drawn = b" /XObject << %s>>" % b"".join(images) if images else b""
    kids = b" ".join(b"%d 0 R" % (first + 2 * at) for at in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(contents)),
    ]
    for at, content in enumerate(contents):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Contents %d 0 R"
            b" /Resources << /Font << /F1 %d 0 R %s>>%s >> >>" % (WIDTH, HEIGHT, first + 2 * at + 1, fonts, bold, drawn)
        )
        objects.append(b"<< /Length %d >>\nstream\n%sendstream" % (len(content), content))
    objects += [FONT % b"", *([FONT % b"-Bold"] if bold else []), *map(image, pictures)]
    return numbered(objects)


def image(picture: Picture) -> bytes:
    """Return a picture as an object."""
    told = (picture.width, picture.height, len(picture.data), picture.data)
    return (
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8"
        b" /Filter /DCTDecode /Length %d >>\nstream\n%s\nendstream" % told
    )


def numbered(objects: Sequence[bytes]) -> bytes:
    """Return the file's objects with the cross-reference table."""
    made, places = bytearray(b"%PDF-1.4\n"), []
    for number, told in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, told)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, table)
    return bytes(made) + end + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(made))


def escaped(text: str) -> bytes:
    """Escape a text for a PDF string."""
    data = text.encode("cp1252")
    return data.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
