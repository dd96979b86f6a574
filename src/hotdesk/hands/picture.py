"""Pictures from a desk: the host reads their headers, never their pixels, and passes the bytes on."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hotdesk.dataclass import dataclass

MAX_SIDE = 1568
"""Pixels of the longest side that models process without scaling the picture down."""
MAX_BYTES = 3_500_000
"""Bytes of a picture: providers accept five megabytes of base64."""
_MAX_SEGMENTS = 500
"""Segments of a JPEG that are skipped before its frame header."""
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG markers of frame headers, which contain the size."""
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})
"""JPEG markers without a segment."""


class PictureError(ValueError):
    """The bytes are not a picture that may be passed on; the text says why."""


@dataclass(slots=True)
class Sight:
    """Whether the user of a desk's tools can see pictures, and the alternative if not."""

    sees: bool = True
    look: bool = False
    """Whether a vision model answers questions about pictures with the tool `look`."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a picture, with the facts from its header."""

    data: bytes
    media: str
    width: int
    height: int


def check_picture(data: bytes, *, side: int = MAX_SIDE, most: int = MAX_BYTES) -> Picture:
    """Check the header of a PNG or JPEG; raise `PictureError` for any other bytes, or a picture that is too large."""
    if len(data) > most:
        raise PictureError(f"the picture has {len(data):,} bytes; the limit is {most:,}")
    found = next(((media, measure) for signature, media, measure in _FORMATS if data.startswith(signature)), None)
    if found is None:
        raise PictureError("the picture is neither a PNG nor a JPEG")
    media, measure = found
    width, height = measure(data)
    if not (0 < width <= side and 0 < height <= side):
        raise PictureError(f"the picture is {width} by {height} pixels; the limit is {side} by {side}")
    return Picture(data, media, width, height)


def _measure_png(data: bytes) -> tuple[int, int]:
    if data[8:16] != b"\0\0\0\rIHDR" or len(data) < 33:
        raise PictureError("the PNG header of the picture is damaged")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def _measure_jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        if data[at : at + 1] != b"\xff":
            break
        if data[at + 1 : at + 2] == b"\xff":  # a fill byte
            at += 1
            continue
        marker = int.from_bytes(data[at + 1 : at + 2])
        if marker in _BARE:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4])
        if length < 2 or at + 2 + length > len(data):
            break
        if marker in _FRAMES and length >= 8:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    raise PictureError("the JPEG header of the picture is damaged")


_FORMATS: tuple[tuple[bytes, str, Callable[[bytes], tuple[int, int]]], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _measure_png),
    (b"\xff\xd8\xff", "image/jpeg", _measure_jpeg),
)
