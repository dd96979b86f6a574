"""Tests of the check of PNG files: evidence from real files, and each fault the check claims to find."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from hotdesk.checks import find
from hotdesk.checks.evidence import unpack
from hotdesk.checks.inside.png_look import look
from hotdesk.checks.png import PngCheck
from hotdesk.checks.seam import DrawnPixels, Evidence, Verdict
from hotdesk.errors import BriefError


def drawn(size: tuple[int, int] = (60, 40), spot: str = "red", ground: str = "white", form: str = "PNG") -> bytes:
    picture, made = Image.new("RGB", size, ground), io.BytesIO()
    picture.paste(spot, (0, 0, 10, 10))
    picture.save(made, form)
    return made.getvalue()


def seen(folder: Path, data: bytes, expect: dict[str, object] | None = None) -> Verdict:
    (folder / "a.png").write_bytes(data)
    told, pixels = look(str(folder / "a.png"))
    return PngCheck.from_expect(expect or {}).judge(unpack(json.dumps(told).encode() + b"\n" + pixels))


def test_a_picture_passes_and_is_shown(tmp_path: Path) -> None:
    verdict = seen(tmp_path, drawn(), {"width": 60, "height": {"min": 40, "max": 50}})
    assert verdict.passed
    assert verdict.values == {"width": 60, "height": 40, "colours": 2}
    assert [(page.width, page.height) for page in verdict.pages] == [(60, 40)]


@pytest.mark.slow
def test_a_large_picture_is_shown_smaller(tmp_path: Path) -> None:
    verdict = seen(tmp_path, drawn((3000, 1500)))
    assert verdict.values["width"] == 3000
    assert [(page.width, page.height) for page in verdict.pages] == [(1000, 500)]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (drawn(spot="white"), "blank"),
        (drawn(spot="#fffffe"), "blank"),
        (drawn(spot="#7f7f7f", ground="#808080"), "blank"),
        (drawn(spot="#fcfcfc"), "blank"),
        (drawn((61, 40)), "width"),
        (drawn((60, 41)), "height"),
        (drawn()[:-30], "opens"),
        (drawn()[:60] + b"\0" + drawn()[61:], "opens"),
        (drawn(form="JPEG"), "opens"),
        (b"", "opens"),
    ],
)
def test_each_fault_is_found(tmp_path: Path, data: bytes, rule: str) -> None:
    verdict = seen(tmp_path, data, {"width": 60, "height": 40})
    assert rule in {fault.rule for fault in verdict.faults}


def test_colours_that_differ_visibly_count(tmp_path: Path) -> None:
    assert seen(tmp_path, drawn(spot="#848484", ground="#808080")).values["colours"] == 2
    assert seen(tmp_path, drawn(spot="#7c7c7c", ground="#808080")).values["colours"] == 2


def test_a_transparent_picture_is_blank(tmp_path: Path) -> None:
    made = io.BytesIO()
    Image.new("RGBA", (9, 9), (255, 0, 0, 0)).save(made, "PNG")
    assert [fault.rule for fault in seen(tmp_path, made.getvalue()).faults] == ["blank"]


def test_colours_are_counted_here_whatever_the_desk_reports() -> None:
    told = json.dumps({"width": 5, "height": 5, "format": "PNG", "colours": 99}).encode()
    assert not PngCheck().judge(Evidence(told)).passed
    assert not PngCheck().judge(Evidence(told, (DrawnPixels(2, 1, bytes(6)),))).passed
    assert PngCheck().judge(Evidence(told, (DrawnPixels(2, 1, bytes(3) + b"abc"),))).passed
    few = PngCheck.from_expect({"colours": {"min": 3}})
    assert not few.judge(Evidence(told, (DrawnPixels(2, 1, bytes(3) + b"abc"),))).passed


@pytest.mark.parametrize("expect", [{"width": "wide"}, {"size": 5}])
def test_invalid_expectations_are_refused(expect: dict[str, object]) -> None:
    with pytest.raises(BriefError, match=r"png:? .*(write expect = |its options are )"):
        find("png", expect)
