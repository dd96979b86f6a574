"""Reads a Word document. Runs inside a clean desk. Prints a line of JSON, then the pixels of its pages."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import drawn_look  # type: ignore[import-not-found]
import ooxml_look  # type: ignore[import-not-found]
import printed_look  # type: ignore[import-not-found]

MAX_NAME_CHARS = 500
MAX_TEXT_CHARS = 5000
MAX_FRAMES = 4000
POINT = 12700
TWIPS = 20.0
"""Twentieths of a point (twips) in one point."""
KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
PLACE = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
SHAPE = "{http://schemas.microsoft.com/office/word/2010/wordprocessingShape}"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
OTHERWISE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
FIXED = re.compile(rb'w:hRule="exact"')
STIFF = re.compile(rb"<a:noAutofit\s*/>")
BARE = re.compile(rb"<wps:bodyPr((?:\s[^>]*?)?)/>")
Element = ElementTree.Element


def _find_text_area(root: Element) -> list[float] | None:
    """Return the area of a page for text, or the union over all sections; `None` if none is declared."""
    found = []
    for section in root.iter(WORD + "sectPr"):
        size, margin = section.find(WORD + "pgSz"), section.find(WORD + "pgMar")
        if size is not None and margin is not None:
            wide, high = _read_length(size, "w"), _read_length(size, "h")
            left, right, top, bottom = (abs(_read_length(margin, each)) for each in ("left", "right", "top", "bottom"))
            found.append((left, top, wide - right, high - bottom))
    if not found:
        return None
    lefts, tops, rights, bottoms = zip(*found, strict=True)
    return [min(lefts), min(tops), max(rights), max(bottoms)]


def _read_length(element: Element, name: str) -> float:
    return float(element.get(WORD + name, "0")) / TWIPS


def list_frames(root: Element) -> list[dict[str, object]]:
    found = [*_iterate_tables(root), *_iterate_pictures(root), *_iterate_fixed_boxes(root)]
    return found[: MAX_FRAMES + 1]


def read_frame(kind: str, name: str, width: float, height: float, text: str = "") -> dict[str, object]:
    return {
        "page": -1, "kind": kind, "name": name[:MAX_NAME_CHARS], "box": [0, 0, max(width, 0), max(height, 0)],
        "text": text[:MAX_TEXT_CHARS], "grows": False, "empty": False,
    }  # fmt: skip


def _iterate_tables(root: Element) -> Iterator[dict[str, object]]:
    for at, table in enumerate(root.iter(WORD + "tbl"), 1):
        wide, layout = table.find(f"{WORD}tblPr/{WORD}tblW"), table.find(f"{WORD}tblPr/{WORD}tblLayout")
        grid = sum(_read_length(each, "w") for each in table.iterfind(f"{WORD}tblGrid/{WORD}gridCol"))
        declared = _read_length(wide, "w") if wide is not None and wide.get(WORD + "type") == "dxa" else 0.0
        if declared or (layout is not None and layout.get(WORD + "type") == "fixed"):
            yield read_frame("table", f"table {at}", declared or grid, 0)
        for count, row in enumerate(table.iterfind(WORD + "tr"), 1):
            height = row.find(f"{WORD}trPr/{WORD}trHeight")
            if height is not None and height.get(WORD + "hRule") == "exact":
                for cell in row.iterfind(WORD + "tc"):
                    yield read_frame("row", f"table {at}, row {count}", 0, _read_length(height, "val"), get_text(cell))


def _iterate_pictures(root: Element) -> Iterator[dict[str, object]]:
    for inline in root.iter(PLACE + "inline"):
        extent, named = inline.find(PLACE + "extent"), inline.find(PLACE + "docPr")
        if extent is not None:
            wide, high = (int(extent.get(each, "0")) / POINT for each in ("cx", "cy"))
            yield read_frame("picture", named.get("name", "") if named is not None else "", wide, high)


def _iterate_fixed_boxes(root: Element) -> Iterator[dict[str, object]]:
    for paragraph in root.iter(WORD + "p"):
        place = paragraph.find(f"{WORD}pPr/{WORD}framePr")
        if place is not None and place.get(WORD + "hRule") == "exact":
            yield read_frame("frame", get_text(paragraph)[:40], 0, _read_length(place, "h"), get_text(paragraph))
    for place in [*root.iter(PLACE + "inline"), *root.iter(PLACE + "anchor")]:
        extent, body = place.find(PLACE + "extent"), place.find(f".//{SHAPE}bodyPr")
        content, named = place.find(f".//{WORD}txbxContent"), place.find(PLACE + "docPr")
        if extent is None or content is None or (body is not None and body.find(DRAWING + "spAutoFit") is not None):
            continue
        name = named.get("name", "") if named is not None else ""
        yield read_frame("text box", name, 0, int(extent.get("cy", "0")) / POINT, get_text(content))


def get_text(root: Element) -> str:
    return " ".join("".join(run.text or "" for run in each.iter(WORD + "t")) for each in root.iter(WORD + "p"))


def _write_autofit_copy(path: str, folder: str, main: str) -> str:
    target = str(Path(folder) / "loose.docx")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        for each in source.infolist():
            data = source.read(each)
            if each.filename == main:
                data = STIFF.sub(b"<a:spAutoFit/>", FIXED.sub(b'w:hRule="atLeast"', data))
                data = BARE.sub(rb"<wps:bodyPr\1><a:spAutoFit/></wps:bodyPr>", data)
            copy.writestr(each.filename, data)
    return target


def _render_autofit_lines(path: str, fixed_frames: list[dict[str, object]], main: str) -> list[object]:
    if not any(each["text"] for each in fixed_frames):
        return []
    with tempfile.TemporaryDirectory() as folder:
        document, _ = printed_look.render_document(_write_autofit_copy(path, folder, main))
    return [page["lines"] for page in document["pages"]]


def list_fonts(package: Any, root: Element) -> list[list[str]]:
    themes, names = package.read_theme_fonts(), set()
    for each in [*root.iter(WORD + "rFonts"), *_iterate_style_fonts(package, root)]:
        for which in ("ascii", "hAnsi"):
            theme = each.get(f"{WORD}{which}Theme", "")
            names.add(themes.get(theme[:5], "") if theme else each.get(WORD + which, ""))
    return list(ooxml_look.match_fonts(names))


def _iterate_style_fonts(package: Any, root: Element) -> Iterator[Element]:
    if "word/styles.xml" not in package.names:
        return
    sheet = package.parse_part("word/styles.xml")
    yield from sheet.iterfind(f"{WORD}docDefaults//{WORD}rFonts")
    by_id = {each.get(WORD + "styleId", ""): each for each in sheet.iter(WORD + "style")}
    kinds = ("pStyle", "rStyle", "tblStyle")
    todo = [each.get(WORD + "val", "") for kind in kinds for each in root.iter(WORD + kind)]
    todo += [name for name, each in by_id.items() if each.get(WORD + "default") == "1"]
    while todo:
        style = by_id.pop(todo.pop(), None)
        if style is not None:
            yield from style.iter(WORD + "rFonts")
            todo += [each.get(WORD + "val", "") for each in style.iter(WORD + "basedOn")]


def _remove_fallbacks(root: Element) -> Element:
    """Remove the fallbacks for old office programs, which repeat other content."""
    for each in list(root.iter()):
        for other in each.findall(OTHERWISE):
            each.remove(other)
    return root


def look(path: str) -> tuple[dict[str, object], list[bytes]]:
    """Return the content of a document and its page pixels, or why it cannot be opened."""
    try:
        package = ooxml_look.OoxmlPackage(path, KIND)
        root = _remove_fallbacks(package.parse_part(package.main))
        fixed_frames = list_frames(root)
        parts = {
            "title": package.read_title(), "media": package.find_media_problems({}), "charts": package.read_charts({}),
            "fonts": list_fonts(package, root), "frames": fixed_frames, "area": _find_text_area(root),
            "loose": _render_autofit_lines(path, fixed_frames, package.main),
        }  # fmt: skip
        document, packed = printed_look.render_document(path)
    except Exception as e:  # noqa: BLE001 - whatever a broken file does to the parsers, it is a broken file
        return {"unreadable": drawn_look.describe_error(e)}, []
    return {**document, **parts}, packed


if __name__ == "__main__":
    answer, pages = look(json.load(sys.stdin)["path"])
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + b"".join(pages))
