"""Judges the pixels of a rendered page, whatever the file claims: is it blank, does content run off the edge.

The input is raw pixels only; nothing that a desk encoded is decoded.
"""

from __future__ import annotations

from collections import Counter

from PIL import Image, ImageChops

from hotdesk.checks.seam import DrawnPixels

APART = 28
"""Minimum difference between neighbouring pixels that counts as an edge."""
MARGIN = 0.08
"""Share of a page's height at the top and at the bottom that is ignored, because headers and footers are there."""
_LEAST_INK = 0.0002
"""Minimum share of changing pixels in the rest of a page that is not blank."""
SHORT = 0.03
"""Maximum length of a stroke of writing, as a share of the page's edge; a longer one is a bar or a picture."""
FEWEST = 2
"""Minimum number of strokes that count as writing: a single one is a line drawn to the edge."""
MOSTLY = 0.8
"""Minimum share of background along an edge; with less, a picture or a pattern fills the page."""
EDGES = ("left", "top", "right", "bottom")


def is_blank(page: DrawnPixels) -> bool:
    """Return whether a page is blank between header and footer. A slow gradient counts as blank."""
    image = Image.frombytes("RGB", (page.width, page.height), page.rgb)
    margin = int(page.height * MARGIN)
    body = image.crop((0, margin, page.width, max(margin + 1, page.height - margin)))
    return _measure_ink(body) < _LEAST_INK


def _measure_ink(image: Image.Image) -> float:
    """Return the share of pixels that differ from a neighbour."""
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
    """List the positions of short strokes on a line of pixels that is mostly of one colour."""
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
