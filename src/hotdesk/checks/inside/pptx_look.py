"""Inspects slides. Runs inside a clean desk. Prints a line of JSON, then the pixels of the slides."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import drawn_look  # type: ignore[import-not-found]
import ooxml_look  # type: ignore[import-not-found]
import pptx  # type: ignore[import-not-found]
import printed_look  # type: ignore[import-not-found]

MAX_NAME_CHARS = 500
MAX_TEXT_CHARS = 5000
MAX_FRAMES = 4000
POINT = 12700
MAIN = "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
FILLED = ("TITLE", "CENTER_TITLE", "SUBTITLE", "BODY", "OBJECT", "PICTURE", "CHART", "TABLE", "VERTICAL_BODY")
"""Types of placeholders that an author fills in."""
PLAIN = (1.0, 0.0, 1.0, 0.0)


def list_frames(deck: Any) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for page, slide in enumerate(deck.slides):
        found += [
            read_frame(page, shape, how)
            for shape, how in _iterate_shapes(slide.shapes, PLAIN)
            if shape.width is not None
        ]
    return found[: MAX_FRAMES + 1]


def _iterate_shapes(siblings: Any, how: tuple[float, float, float, float]) -> Iterator[tuple[Any, Any]]:
    """Yield all visible shapes with the transform of their groups: scale and offset, across and down."""
    for shape in siblings:
        hidden = shape._element.xpath("./*/p:cNvPr[@hidden='1' or @hidden='true']")
        if hidden:
            continue
        if shape.shape_type is not None and shape.shape_type.name == "GROUP":
            yield from _iterate_shapes(shape.shapes, _compose_transform(shape, how))
        else:
            yield shape, how


def _compose_transform(group: Any, how: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    place = group._element.grpSpPr.find(DRAWING + "xfrm")
    offset, extent = (place.find(DRAWING + each) if place is not None else None for each in ("chOff", "chExt"))
    if offset is None or extent is None or not int(extent.get("cx")) or not int(extent.get("cy")):
        return how
    wide, high = group.width / int(extent.get("cx")), group.height / int(extent.get("cy"))
    left, top = group.left - int(offset.get("x")) * wide, group.top - int(offset.get("y")) * high
    across, right, down, below = how
    return across * wide, across * left + right, down * high, down * top + below


def read_frame(page: int, shape: Any, how: tuple[float, float, float, float]) -> dict[str, object]:
    across, right, down, below = how
    left, top = shape.left * across + right, shape.top * down + below
    box = [left, top, left + shape.width * across, top + shape.height * down]
    text = shape.text_frame.text if shape.has_text_frame else ""
    return {
        "page": page, "kind": get_kind(shape), "name": shape.name[:MAX_NAME_CHARS],
        "box": [round(each / POINT, 2) for each in box], "text": text[:MAX_TEXT_CHARS],
        "grows": _is_frame_flexible(shape), "empty": is_empty(shape, text),
    }  # fmt: skip


def get_kind(shape: Any) -> str:
    if getattr(shape, "has_table", False):
        return "table"
    if getattr(shape, "has_chart", False):
        return "chart"
    return "picture" if shape._element.tag.endswith("}pic") else "text"


def _is_frame_flexible(shape: Any) -> bool:
    body = shape._element.find(".//" + DRAWING + "bodyPr")
    turned = getattr(shape, "rotation", 0) or (body is not None and body.get("vert", "horz") != "horz")
    return bool(turned) or (body is not None and body.find(DRAWING + "spAutoFit") is not None)


def is_empty(shape: Any, text: str) -> bool:
    if not shape.is_placeholder or not shape._element.tag.endswith("}sp"):
        return False
    filled = shape._element.find(".//" + DRAWING + "blip") is not None
    return not text.strip() and not filled and shape.placeholder_format.type.name in FILLED


def _mark_own_pictures(pages: Any, deck_frames: list[dict[str, Any]]) -> None:
    """Mark pictures of the deck itself, as opposed to those that the office program draws for shadows."""
    for at, page in enumerate(pages):
        boxes = [each["box"] for each in deck_frames if each["page"] == at and each["kind"] == "picture"]
        for picture in page["pictures"]:
            picture["own"] = any(is_near(picture["box"], box) for box in boxes)


def is_near(one: list[float], other: list[float]) -> bool:
    slack = 0.05 * max(other[2] - other[0], other[3] - other[1]) + 1
    return all(abs(a - b) <= slack for a, b in zip(one, other, strict=True))


def list_fonts(package: Any) -> list[list[str]]:
    names = set(package.read_theme_fonts().values())
    for _, root in package.iterate_parts(r"ppt/slides/slide\d+\.xml"):
        names |= {each.get("typeface", "") for each in root.iter(DRAWING + "latin")}
    return list(ooxml_look.match_fonts(names))


def look(path: str) -> tuple[dict[str, object], list[bytes]]:
    """Return the content of a deck and its slide pixels, or why it cannot be opened."""
    try:
        package = ooxml_look.OoxmlPackage(path, MAIN)
        deck = pptx.Presentation(path)
        places = {slide.part.partname.lstrip("/"): f"slide {at + 1}" for at, slide in enumerate(deck.slides)}
        deck_frames = list_frames(deck)
        parts = {
            "title": package.read_title(), "media": package.find_media_problems(places),
            "charts": package.read_charts(places),
            "fonts": list_fonts(package), "frames": deck_frames,
        }  # fmt: skip
        document, packed = printed_look.render_document(path)
        document["count"] = len(deck.slides)
        _mark_own_pictures(document["pages"], deck_frames)
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": drawn_look.describe_error(e)}, []
    return {**document, **parts}, packed


if __name__ == "__main__":
    answer, pages = look(json.load(sys.stdin)["path"])
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + b"".join(pages))
