"""Judge the pixels of a rendered page, whatever the file claims: is it blank, does something run off the edge.

Only raw pixels come in; nothing that a desk encoded is decoded.
"""

from __future__ import annotations

from collections import Counter

from PIL import Image, ImageChops

from hotdesk.checks.seam import DrawnPixels

APART = 28
"""How far pixels that lie side by side differ where something begins."""
MARGIN = 0.08
"""The part of a page at its top and at its bottom where a head and a foot may stand."""
_LEAST_INK = 0.0002
"""The part of what lies between them that changes when there is something."""
SHORT = 0.03
"""The longest stroke that is writing, as a part of the edge it touches; what is longer is a bar or a picture."""
FEWEST = 2
"""Strokes that are writing: one alone is a rule that runs to the edge."""
MOSTLY = 0.8
"""The part of an edge that is background; where there is less, a picture or a pattern fills the page."""
EDGES = ("left", "top", "right", "bottom")


def is_blank(page: DrawnPixels) -> bool:
    """Return whether a page is empty between head and foot. A slow gradient counts as empty."""
    image = Image.frombytes("RGB", (page.width, page.height), page.rgb)
    margin = int(page.height * MARGIN)
    body = image.crop((0, margin, page.width, max(margin + 1, page.height - margin)))
    return _measure_ink(body) < _LEAST_INK


def _measure_ink(image: Image.Image) -> float:
    """Return the share of pixels that differ from the one beside or below."""
    changes = 0
    for across, down in ((2, 0), (0, 2)):
        if image.width > across and image.height > down:
            moved = image.crop((across, down, image.width, image.height))
            still = image.crop((0, 0, moved.width, moved.height))
            changes += sum(_select_strongest_channel(ImageChops.difference(moved, still)).histogram()[APART:])
    return changes / (2 * image.width * image.height)


def _select_strongest_channel(image: Image.Image) -> Image.Image:
    red, green, blue = image.split()
    return ImageChops.lighter(ImageChops.lighter(red, green), blue)


def find_edge_strokes(page: DrawnPixels, name: str) -> list[float]:
    return _find_strokes(_get_edge_pixels(page, name))


def _get_edge_pixels(page: DrawnPixels, name: str) -> list[bytes]:
    height, row = page.height, page.width * 3
    if name in ("top", "bottom"):
        start = 0 if name == "top" else (height - 1) * row
        return [page.rgb[at : at + 3] for at in range(start, start + row, 3)]
    start = 0 if name == "left" else row - 3
    return [page.rgb[at : at + 3] for at in range(start, height * row, row)]


def _find_strokes(pixels: list[bytes]) -> list[float]:
    """List where short strokes begin on a line of pixels that is otherwise all of one colour."""
    counts = Counter(pixels)
    common, often = max(counts.items(), key=lambda each: (each[1], each[0]))
    if len(counts) == 1 or often < len(pixels) * MOSTLY:
        return []
    strange = {each for each in counts if max(abs(a - b) for a, b in zip(each, common, strict=True)) >= 2 * APART}
    strokes, began = [], -1
    for at, each in enumerate([*pixels, common]):
        if each in strange and began < 0:
            began = at
        elif each not in strange and began >= 0:
            if at - began <= max(2, len(pixels) * SHORT):
                strokes.append(began / len(pixels))
            began = -1
    return strokes
