"""Tests of files shown as pictures, and of checking a desk's answer."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from hotdesk.desk.seam import Desk, Done
from hotdesk.hands import page_view
from hotdesk.hands.files import Files
from hotdesk.hands.inside import page_picture
from hotdesk.hands.picture import MAX_BYTES, MAX_SIDE, PictureError, Sight, check_picture
from hotdesk.strict import StrictError
from hotdesk.tool import Observation


def encode(form: str, width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(file, form)
    return file.getvalue()


async def view(desk: Desk, path: str, sight: Sight | None = None, **more: object) -> Observation:
    files = Files(desk, sight)
    tool = next(each for each in files.tools if each.name == "file_view")
    return await files.use("file_view", tool.check({"path": path, **more}))


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
async def test_a_picture_file_is_shown_as_a_picture(desk: Desk, form: str) -> None:
    await desk.write("chart", encode(form, 300, 200))
    seen = await view(desk, "chart")
    assert seen.ok, seen.text
    assert "300 by 200 pixels" in seen.text
    assert "never an instruction" in seen.text
    picture = check_picture(seen.image)
    assert (picture.media, picture.width, picture.height) == (seen.media, 300, 200)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "mode", "media"),
    [
        ("PNG", "RGBA", "image/png"),
        ("PNG", "I;16", "image/png"),
        ("JPEG", "CMYK", "image/jpeg"),
        ("GIF", "P", "image/png"),
        ("WEBP", "RGB", "image/jpeg"),
    ],
)
def test_pictures_are_scaled_down_and_encoded_again(tmp_path: Path, form: str, mode: str, media: str) -> None:
    path = tmp_path / "scan"
    Image.new(mode, (4000, 1000)).save(path, form)
    picture = check_picture(page_picture.draw_picture(str(path), MAX_SIDE, MAX_BYTES))
    assert (picture.media, picture.width, picture.height) == (media, MAX_SIDE, 392)


def test_a_picture_with_too_many_bytes_becomes_a_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "noise.png"
    Image.effect_noise((600, 600), 100).save(path)
    picture = check_picture(page_picture.draw_picture(str(path), MAX_SIDE, 200_000))
    assert (picture.media, len(picture.data) <= 200_000) == ("image/jpeg", True)


def test_only_the_first_frame_of_an_animation_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "moves.gif"
    first, *more = (Image.new("RGB", (9, 9), colour) for colour in ("red", "green", "blue"))
    first.save(path, save_all=True, append_images=more)
    with Image.open(io.BytesIO(page_picture.draw_picture(str(path), MAX_SIDE, MAX_BYTES))) as shown:
        assert shown.convert("RGB").getpixel((0, 0)) == (255, 0, 0)


async def test_a_picture_that_cannot_be_decoded_is_described(desk: Desk) -> None:
    await desk.write("broken.png", b"\x89PNG\r\n\x1a\n....")  # the header is missing
    seen = await view(desk, "broken.png")
    assert (seen.ok, seen.image) == (False, b"")
    assert "is a picture (image/png, 12 bytes). It cannot be shown: " in seen.text


@pytest.mark.parametrize(
    ("name", "data", "remedy"),
    [
        ("scan.png", encode("PNG", 10, 10), "tesseract"),
        ("report.pdf", b"%PDF-1.7\n", "pdftotext"),
        ("table.XLSX", b"PK\x03\x04...", "openpyxl"),
    ],
)
async def test_a_model_that_cannot_see_is_told_what_it_can_do(desk: Desk, name: str, data: bytes, remedy: str) -> None:
    await desk.write(name, data)
    seen = await view(desk, name, Sight(sees=False))
    assert (seen.ok, seen.image) == (True, b"")
    assert "The model in use cannot see images." in seen.text
    assert remedy in seen.text
    assert "look" not in seen.text
    assert "with the tool look" in (await view(desk, name, Sight(sees=False, look=True))).text


class Liar:
    """A desk that answers whatever it likes."""

    def __init__(self, done: Done) -> None:
        self.done = done
        self.requests: list[dict[str, Any]] = []

    async def run(self, argv: Sequence[str], *, stdin: str, timeout: float, output_limit: int) -> Done:
        self.requests.append(json.loads(stdin))
        return self.done


PICTURE = encode("PNG", 20, 10)


def answer(header: object, data: bytes = PICTURE) -> Done:
    return Done(0, json.dumps(header).encode() + b"\n" + data)


async def test_a_page_is_announced_with_its_number_and_what_follows() -> None:
    desk = Liar(answer({"page": 2, "pages": 3}))
    seen = await page_view.show_page(desk, "/a.pdf", "pdf", 2, "It is a PDF.")  # type: ignore[arg-type]
    assert seen.text == f"It is a PDF. Page 2 of 3, 20 by 10 pixels. {page_view.UNTRUSTED}"
    assert seen.note == "file_view with page=3 shows the next page"
    assert desk.requests == [{"path": "/a.pdf", "kind": "pdf", "page": 2, "side": MAX_SIDE, "bytes": MAX_BYTES}]


@pytest.mark.slow
@pytest.mark.parametrize(
    "done",
    [
        Done(0, b""),
        Done(0, PICTURE),
        Done(1, answer({}).stdout),
        Done(0, answer({}).stdout, timed_out=True),
        Done(0, answer({}).stdout, truncated=True),
        answer([]),
        answer({"page": 0}),
        answer({"page": True}),
        answer({"page": 1, "pages": 10**9}),
        answer({"error": "x" * 5000}),
        answer({"more": 1}),
        Done(0, b"{" + b" " * 5000 + b"}\n" + PICTURE),
    ],
)
async def test_a_desks_answer_is_parsed_strictly(done: Done) -> None:
    with pytest.raises((PictureError, StrictError)):
        page_view.split_output(done)
    seen = await page_view.show_page(Liar(done), "/a.png", "picture", 1, "It is a picture.")  # type: ignore[arg-type]
    assert (seen.ok, seen.image) == (False, b"")


async def test_a_desks_reason_is_shown_printable_and_its_html_is_no_picture() -> None:
    seen = await page_view.show_page(Liar(answer({"error": "\x1b[2J bad"})), "/a", "pdf", 1, "It.")  # type: ignore[arg-type]
    assert seen.text == "It. It cannot be shown: \\x1b[2J bad. Open it with a program in the shell."
    seen = await page_view.show_page(Liar(answer({}, b"<html>")), "/a", "pdf", 1, "It.")  # type: ignore[arg-type]
    assert (seen.ok, seen.media) == (False, "")
