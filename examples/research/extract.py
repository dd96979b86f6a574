"""Reads numbers out of pictures of charts, at the worker's desk.

python3 extract.py    reads charts.json and charts/*.png, writes extracted.csv

Letters are recognised by tesseract. The numbers beside the value axis give the scale of pixel rows; the names below
give the columns; the value of a column is where the chart's only colour begins in it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom."""
Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
COLUMNS = ("Chart", "Publisher", "Report", "Figure", "Unit", "Label", "Value", "Low", "High")
COLOURFUL = 60
"""Minimum difference of a pixel's strongest and weakest colour that is no paper, letter or grid."""
NEAR = 4
"""Pixels by which a number may be off its position."""
LARGER = (2, 3, 4)
"""Factors of enlargement: tesseract may recognise at one size what it misreads at another."""
ENOUGH = 4
"""Numbers that must agree on a scale, so that no other size is tried."""
FAINT, STROKE = 20, 40
"""How much darker than paper ink is; and the pixels of the longest stroke of a letter."""
DIGITS = "0123456789.,%"
AS_LINES = "6"
"""Tesseract's page segmentation mode for lines below each other."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word on a picture."""

    text: str
    left: float
    top: float
    wide: float
    high: float

    @property
    def middle(self) -> float:
        """Return the column of its middle."""
        return self.left + self.wide / 2


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside the value axis, and its row."""

    value: float
    row: float


Scale: TypeAlias = Callable[[float], float]
"""Returns the value of a row of pixels."""


class Unreadable(Exception):  # noqa: N818 - what is said of a chart
    """A chart cannot be read."""


def main() -> None:
    """Read every chart."""
    charts = json.loads(Path("charts.json").read_text())
    try:
        with ThreadPoolExecutor(2) as several:
            read = list(several.map(attempt, charts))
    except Unreadable as e:
        sys.exit(str(e))
    with Path("extracted.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(row for rows in read for row in rows)


def attempt(chart: dict[str, str]) -> list[list[str]]:
    """Read one chart; name it in the error if it cannot be read."""
    try:
        return rows_of(chart)
    except Unreadable as e:
        raise Unreadable(f"{chart['chart']}: {e}") from e


def rows_of(chart: dict[str, str]) -> list[list[str]]:
    """Read one chart; return a row for each of its values."""
    image = Image.open(Path("charts", chart["chart"])).convert("RGB")
    picture = np.asarray(image).astype(int)
    coloured = picture.max(axis=2) - picture.min(axis=2) > COLOURFUL
    first, last = np.flatnonzero(coloured.any(axis=0))[[0, -1]]
    left, right = (0, 0, int(first), image.height), (int(last) + 1, 0, image.width, image.height)
    ticks = axis_in(image, max(left, right, key=lambda box: inked(image, box)))
    if len(ticks) < 3:
        raise Unreadable("there are no three numbers of one axis")
    scale = scaled(ticks)
    foot = max(round(ticks[-1].row), int(np.flatnonzero(coloured.any(axis=1))[-1])) + 2 * NEAR
    below = words(image, (0, foot, image.width, image.height))
    names = lowest([word for word in below if first - 2 * NEAR < word.middle < last + 2 * NEAR])
    told = [chart["chart"], chart["publisher"], chart["title"], chart["figure"], chart["unit"]]
    ends = [f"{ticks[-1].value:g}", f"{ticks[0].value:g}"]
    places = columns(names, int(first), int(last))
    return [[*told, name, f"{scale(row):.5g}", *ends] for name, row in points(coloured, places)]


def scaled(ticks: list[Tick]) -> Scale:
    """Say what rows mean: nothing at the foot of the axis, and the topmost number at its top."""
    foot, top = ticks[-1].row, ticks[0]

    def scale(row: float) -> float:
        return top.value * (foot - row) / (foot - top.row)

    for tick in ticks:
        if abs(scale(tick.row) - tick.value) > top.value / 50:
            raise Unreadable(f"the axis says {tick.value:g} where {scale(tick.row):.4g} would be")
    return scale


def axis_in(image: Image.Image, box: Box) -> list[Tick]:
    """Read the value axis in a part of a picture."""
    best: list[Tick] = []
    for larger in LARGER:
        best = max(best, value_axis(words(image, box, larger, DIGITS)), key=len)
        if len(best) >= ENOUGH:
            break
    return best


def words(image: Image.Image, box: Box, larger: int = LARGER[0], letters: str = "") -> list[Word]:
    """Recognise the words in a part of a picture."""
    data = io.BytesIO()
    part = without_lines(image.crop(box))
    part.resize((part.width * larger, part.height * larger), Image.Resampling.LANCZOS).save(data, "PPM")
    only = ["-c", f"tessedit_char_whitelist={letters}"] if letters else []
    argv = ["tesseract", "-", "-", "--psm", AS_LINES, "--dpi", "300", *only, "tsv"]
    env = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    done = subprocess.run(argv, input=data.getvalue(), capture_output=True, check=True, timeout=60, env=env)
    rows = csv.DictReader(done.stdout.decode().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    found = []
    for row in rows:
        if row["level"] == "5" and row["text"].strip():
            x, y, wide, high = (int(row[name]) / larger for name in ("left", "top", "width", "height"))
            found.append(Word(row["text"].strip(), box[0] + x, box[1] + y, wide, high))
    return found


def without_lines(image: Image.Image) -> Image.Image:
    """Return a picture in grey, without axes and grids, which are longer than a letter's strokes."""
    grey = np.array(image.convert("L"))
    if not grey.size:
        return Image.new("L", (1, 1), 255)
    paper = np.bincount(grey.ravel()).argmax()
    ink = grey < paper - FAINT
    for turned, drawn in ((ink, grey), (ink.T, grey.T)):  # vertical lines, then horizontal ones
        if len(turned) > STROKE:
            lines: Mask = np.all(sliding_window_view(turned, STROKE, axis=0), axis=-1)
            for at in range(STROKE):
                drawn[at : at + len(lines)][lines] = paper
    return Image.fromarray(grey)


def inked(image: Image.Image, box: Box) -> int:
    """Return the amount of ink in a part of a picture."""
    grey = np.array(without_lines(image.crop(box)))
    return int((grey < np.bincount(grey.ravel()).argmax() - FAINT).sum())


def lowest(seen: list[Word]) -> list[Word]:
    """Return the words of the lowest line that has several: the names below a chart."""
    for word in sorted(seen, key=lambda word: -word.top):
        line = [each for each in seen if abs(each.top + each.high / 2 - word.top - word.high / 2) < word.high / 2]
        if len(line) >= 3:
            return line
    raise Unreadable("there are no names below it")


def value_axis(seen: list[Word]) -> list[Tick]:
    """Find the numbers in one column that rise evenly; return them from the top down."""
    numbers = [(value, word) for word in seen if (value := number(word.text)) is not None]
    return sorted(even(numbers), key=lambda tick: tick.row)


def even(beside: list[tuple[float, Word]]) -> list[Tick]:
    """Return the largest set of a column's numbers that agree on one scale, without misread ones."""
    least = min((word.high for _, word in beside), default=0)
    ticks = [Tick(value, word.top + least / 2) for value, word in beside]
    best: list[Tick] = []
    for one, other in combinations(ticks, 2):
        if (other.row - one.row) * (one.value - other.value) <= 0:
            continue  # values increase upwards
        slope = (other.row - one.row) / (other.value - one.value)
        agreed = [tick for tick in ticks if abs(one.row + slope * (tick.value - one.value) - tick.row) < NEAR]
        best = max(best, agreed, key=len)
    return best


def number(text: str) -> float | None:
    """Parse a number of an axis."""
    found = re.fullmatch(r"(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?%?", text)
    return float(found[1].replace(",", "") + (found[2] or "")) if found else None


def points(coloured: Mask, places: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the row of each name's value, for bars or a line."""
    runs = stretches(np.any(coloured, axis=0))
    pitch = min((b - a for (_, a), (_, b) in pairwise(places)), default=0)
    if len(runs) == 1 and runs[0][1] - runs[0][0] > 1.5 * pitch:
        return [(name, line_row(coloured, column)) for name, column in places]
    bars = [(start, end) for start, end in runs if end - start > pitch / 5]
    if len(bars) != len(places):
        raise Unreadable(f"there are {len(bars)} bars, and {len(places)} names below them")
    return [(name, bar_row(coloured[:, start:end])) for (name, _), (start, end) in zip(places, bars, strict=True)]


def columns(names: list[Word], first: int, last: int) -> list[tuple[str, float]]:
    """Return the names below a chart with their columns; years are evenly spaced, so a misread one is corrected."""
    names = sorted(names, key=lambda word: word.middle)
    years = [(int(word.text), word.middle) for word in names if re.fullmatch(r"(19|20)\d\d", word.text)]
    if len(years) < 3:
        return [(word.text, word.middle) for word in names]
    slope, start = np.polyfit([year for year, _ in years], [middle for _, middle in years], 1)
    drawn = range(round((first - start) / slope), round((last - start) / slope) + 1)
    return [(str(year), float(start + slope * year)) for year in drawn]


def line_row(coloured: Mask, column: float) -> float:
    """Return the row where a line passes a column."""
    rows = [row for at in (-1, 0, 1) for row in np.flatnonzero(coloured[:, round(column) + at])]
    if not rows:
        raise Unreadable("the line does not reach every name")
    return float(np.mean(rows)) + 0.5


def bar_row(bar: Mask) -> float:
    """Return the row where a bar begins."""
    tops = bar[:, bar.any(axis=0)].argmax(axis=0)
    return float(np.median(tops))


def stretches(there: Mask) -> list[tuple[int, int]]:
    """Return the first and last index of each run."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], there.astype(int), [0]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


if __name__ == "__main__":
    main()
