"""Pictures from raw pixels: cropped, scaled, compared, encoded as PNG or JPEG. Nothing here decodes a picture file."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from typing import TypeAlias

from isal import isal_zlib
from PIL import Image, ImageChops

Size: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom; right and bottom are exclusive."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_NO_FILTER = b"\0"
"""The filter byte of each line of a PNG. Other filters made screenshots no smaller, and took longer."""


def make_picture(frame: bytearray, size: Size, box: Box, scaled: Size | None = None) -> Image.Image:
    width = size[0]
    left, top, right, bottom = box
    lines = frame if bottom - top == size[1] else frame[top * width * 4 : bottom * width * 4]
    image = Image.frombuffer("RGB", (width, bottom - top), lines, "raw", "BGRX", 0, 1)
    if (left, right) != (0, width):
        image = image.crop((left, 0, right, bottom - top))
    if scaled and scaled != image.size:
        image = image.resize(scaled, Image.Resampling.LANCZOS)
    return image


def encode_png(image: Image.Image) -> bytes:
    width, height = image.size
    lines = image.tobytes("raw", "RGB", width * 3 + 1, 1)  # the byte of zero after each line is the filter of the next
    packer = isal_zlib.compressobj(1)
    packed = packer.compress(_NO_FILTER) + packer.compress(memoryview(lines)[:-1]) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return SIGNATURE + encode_chunk(b"IHDR", header) + encode_chunk(b"IDAT", packed) + encode_chunk(b"IEND", b"")


def encode_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def encode_jpeg(image: Image.Image, quality: int) -> bytes:
    file = BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def compare(before: bytearray, after: bytearray, size: Size, box: Box) -> tuple[float, Box | None]:
    if before == after:
        return 0.0, None
    difference = ImageChops.difference(make_picture(before, size, box), make_picture(after, size, box))
    red, green, blue = difference.split()
    largest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    if (extent := largest.getbbox()) is None:
        return 0.0, None
    left, top, right, bottom = extent
    share = 1 - largest.histogram()[0] / (largest.width * largest.height)
    return share, (box[0] + left, box[1] + top, box[0] + right, box[1] + bottom)
