"""Pictures for a report: few, small, and each encoded here."""

from __future__ import annotations

import base64
import io
import struct
import zlib

from PIL import Image

from hotdesk.dataclass import dataclass
from hotdesk.job.report.markup import PICTURE

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB = (8, 2, 0, 0, 0)
"""Eight bits, three colours, nothing interlaced: how `hands.reader.pixels` writes a screen."""
MAX_SIDE_PIXELS = 8192
"""Pixels of a side."""
MAX_PIXELS = 16 << 20
OURS = ("screen_", "computer")
"""Tools whose pictures are drawn from pixels outside the desk. A browser's own are files of the desk's making."""


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """A picture as a report holds it."""

    width: int
    height: int
    source: str


@dataclass(slots=True)
class Album:
    """As many pictures as a report has room for."""

    room: int = 4_800_000
    """Characters that are left for pictures."""
    screens: int = 24
    pages: int = 16
    left_out: int = 0
    unread: int = 0
    """Pictures that were made in a desk, and so are not opened here."""

    def add_screen(self, png: bytes, width: int = 960) -> ReportPicture | None:
        """Take a picture of a screen in; None where there is no room, or it is not one of ours."""
        if self.screens <= 0:
            self.left_out += 1
            return None
        image = read_screen(png)
        if image is None:
            self.unread += 1
            return None
        self.screens -= 1
        return self.take(image, width)

    def add_page(self, png: bytes, width: int = 640) -> ReportPicture | None:
        """Take a page in that a check drew: it was encoded here, from pixels, and sealed."""
        if self.pages <= 0:
            self.left_out += 1
            return None
        self.pages -= 1
        with Image.open(io.BytesIO(png), formats=["PNG"]) as image:
            return self.take(image.convert("RGB"), width)

    def take(self, image: Image.Image, width: int) -> ReportPicture | None:
        image.thumbnail((width, 2 * width), Image.Resampling.HAMMING)
        encoded = io.BytesIO()
        image.save(encoded, "JPEG", quality=80, subsampling=0)
        source = PICTURE + base64.b64encode(encoded.getvalue()).decode()
        if len(source) > self.room:
            self.left_out += 1
            return None
        self.room -= len(source)
        return ReportPicture(image.width, image.height, source)


def read_screen(png: bytes) -> Image.Image | None:
    """Read a picture of a screen as we write it, and no other: lines without a filter, in one piece."""
    found = _split_png(png)
    if found is None:
        return None
    width, height, packed = found
    size = height * (3 * width + 1)
    opened = zlib.decompressobj()
    try:
        lines = opened.decompress(packed, size + 1)
    except zlib.error:
        return None
    if len(lines) != size or any(lines[:: 3 * width + 1]):
        return None
    return Image.frombytes("RGB", (width, height), lines[1:] + b"\0", "raw", "RGB", 3 * width + 1, 1)


def _split_png(png: bytes) -> tuple[int, int, bytes] | None:
    if len(png) < 57 or not png.startswith(SIGNATURE) or png[8:16] != b"\0\0\0\rIHDR" or png[37:41] != b"IDAT":
        return None
    width, height, *kind = struct.unpack(">IIBBBBB", png[16:29])
    length = int.from_bytes(png[33:37], "big")
    sized = 0 < width <= MAX_SIDE_PIXELS and 0 < height <= MAX_SIDE_PIXELS and width * height <= MAX_PIXELS
    if tuple(kind) != RGB or not sized or png[41 + length + 4 :][4:8] != b"IEND":
        return None
    return width, height, png[41 : 41 + length]


def spread(count: int, most: int) -> set[int]:
    """Choose which of many are shown: the first, the last, and some between."""
    if count <= most:
        return set(range(count))
    return {round(place * (count - 1) / (most - 1)) for place in range(most)}
