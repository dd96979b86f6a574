"""Evidence about files with pages as a desk would send it, with changes a test chooses."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image, ImageDraw

from hotdesk.checks.seam import Check, DrawnPixels, Evidence, Fault, Verdict

Told = dict[str, Any]
Change = Callable[[Told], object]
WIDTH, HEIGHT = 600, 800
"""Size of a page, in points and in pixels."""
SOURCE = "https://a.example/report"


def line(text: str, left: float = 60, top: float = 100, *, wide: float = 0, how: str = "") -> list[object]:
    return [[left, top, left + (wide or 6.0 * len(text)), top + 10], text, how]


def picture(left: float, top: float, right: float, bottom: float, **more: object) -> Told:
    return {"box": [left, top, right, bottom], "problem": "", "plain": False, "own": True, **more}


def frame(kind: str, box: list[float], text: str = "", **more: object) -> Told:
    return {"page": 0, "kind": kind, "name": "Box 1", "box": box, "text": text, "grows": False, "empty": False, **more}


def leaf(number: int) -> Told:
    lines = [line("Revenue of the year"), line("It grew in every region", top=120), line(f"Page {number}", top=770)]
    links = [[[60, 750, 200, 762], f"{SOURCE}#{number}"]]
    return {"size": [WIDTH, HEIGHT], "lines": lines, "pictures": [], "links": links, "unmapped": 0, "fonts": []}


def chart(shown: list[float | None], book: list[float | None] | None) -> Told:
    series = [{"name": "2030", "shown": shown, "book": book}]
    return {"name": "Growth", "where": "slide 1", "problem": "", "series": series}


GOOD: Told = {
    "count": 2,
    "pages": [leaf(1), leaf(2)],
    "title": "Outlook",
    "tools": {"PDFium": "1"},
    "fonts": [["Calibri", "Carlito"]],
    "media": [],
    "charts": [],
    "frames": [],
}


def told(*changes: Change) -> Told:
    made = copy.deepcopy(GOOD)
    for change in changes:
        change(made)
    return made


def drawn(draw: Callable[[ImageDraw.ImageDraw], object] | None = None, background: str = "white") -> DrawnPixels:
    image = Image.new("RGB", (WIDTH, HEIGHT), background)
    pen = ImageDraw.Draw(image)
    if draw is None:
        for at in range(100, 160, 4):
            pen.line((60, at, 300, at), fill="black")
    else:
        draw(pen)
    return DrawnPixels(WIDTH, HEIGHT, image.tobytes())


def judged(check: Check, seen: Told, pages: Sequence[DrawnPixels] | None = None) -> Verdict:
    shown = [drawn()] * len(seen["pages"]) if pages is None else pages
    return check.judge(Evidence(json.dumps(seen).encode(), tuple(shown)))


def only(verdict: Verdict) -> Fault:
    assert len(verdict.faults) == 1, verdict.findings
    assert verdict.faults[0].rule in verdict.looked_for
    return verdict.faults[0]
