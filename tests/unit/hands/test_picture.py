"""Tests of reading picture headers, honest and made up, without decoding."""

from __future__ import annotations

import io
import struct

import pytest
from PIL import Image

from hotdesk.hands.picture import MAX_BYTES, MAX_SIDE, PictureError, check_picture

FORMS = {"image/png": "PNG", "image/jpeg": "JPEG"}


def encode(form: str, width: int = 300, height: int = 200) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(file, form)
    return file.getvalue()


def jpeg(*segments: tuple[int, bytes]) -> bytes:
    return b"\xff\xd8" + b"".join(
        bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data for marker, data in segments
    )


def frame(width: int, height: int) -> bytes:
    return struct.pack(">BHHB", 8, height, width, 3)


@pytest.mark.parametrize(("media", "form"), FORMS.items())
def test_a_real_picture_is_measured_by_its_header(media: str, form: str) -> None:
    data = encode(form)
    picture = check_picture(data)
    assert (picture.data, picture.media, picture.width, picture.height) == (data, media, 300, 200)


def test_a_jpegs_other_segments_and_fill_bytes_are_skipped() -> None:
    data = jpeg((0xE1, b"\xff\xc0" * 500), (0xC4, b"tables"), (0xC2, frame(640, 480)))
    assert check_picture(data[:2] + b"\xff\xff" + data[2:]).width == 640


@pytest.mark.parametrize("side", [0, MAX_SIDE + 1, 0x7FFFFFFF])
def test_a_picture_that_is_empty_or_too_large_is_refused(side: int) -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 10, side) + bytes(20)
    with pytest.raises(PictureError, match=f"is 10 by {side} pixels"):
        check_picture(png)


def test_a_file_with_too_many_bytes_is_refused() -> None:
    with pytest.raises(PictureError, match="the limit is 3,500,000"):
        check_picture(encode("PNG") + bytes(MAX_BYTES))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"GIF89a" + bytes(100),
        b"\x89PNG\r\n\x1a\n",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIDAT" + bytes(40),
        b"\xff\xd8\xff",
        jpeg((0xE0, b"no frame")),
        jpeg((0xE0, b"x"), (0xC0, frame(10, 10)))[:-3],
        b"\xff\xd8\xff\xe0\0\0" + bytes(100),
        jpeg(*[(0xE0, b"")] * 501, (0xC0, frame(10, 10))),
        b"\xff\xd8" + b"\xff" * 100_000,
    ],
)
def test_an_invalid_picture_or_a_damaged_header_is_refused(data: bytes) -> None:
    with pytest.raises(PictureError):
        check_picture(data)
