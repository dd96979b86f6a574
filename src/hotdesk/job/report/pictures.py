"""Pictures for a report: few, small, and each encoded on the host."""

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
"""The PNG header fields of a screenshot by `hands.reader.pixels`: 8 bits, RGB, not interlaced."""
MAX_SIDE_PIXELS = 8192
"""Maximum pixels of a side."""
MAX_PIXELS = 16 << 20
OURS = ("screen_", "computer")
"""Tools whose pictures are encoded outside the desk. A browser screenshot is a file made in the desk."""


@dataclass(frozen=True, slots=True)
class ReportPicture:
    """A picture in a report: its size and its data URL."""

    width: int
    height: int
    source: str


@dataclass(slots=True)
class Album:
    """The pictures of a report, within its limits of size and number."""

    room: int = 4_800_000
    """Characters left for pictures."""
    screens: int = 24
    pages: int = 16
    left_out: int = 0
    unread: int = 0
    """Pictures that were made in a desk and are therefore not opened on the host."""

    def add_screen(self, png: bytes, width: int = 960) -> ReportPicture | None:
        """Add a screenshot; return `None` if there is no room or hotdesk did not encode it."""
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
        """Add a page that a check rendered. Its PNG was encoded on the host and sealed."""
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
    """Decode a screenshot in the exact form hotdesk writes; return `None` for any other PNG."""
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
    """Return the places of at most `most` items, evenly spread, with the first and the last."""
    if count <= most:
        return set(range(count))
    return {round(place * (count - 1) / (most - 1)) for place in range(most)}
