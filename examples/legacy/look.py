"""Reads pictures of the screen at the worker's desk: words, and the days of a calendar.

python3 look.py words PICTURE    every word, and its position
python3 look.py days PICTURE     every day of the shown month: the position of its number, and the text below it
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

Picture: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
"""Brightness by row and column: 0 is black."""
Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom."""

LARGER = 3
"""Tesseract was trained on print: the letters of a screen are too small for it."""
LINE = 40
"""Pixels of one colour in a row that are no letter but a line or an edge."""
INK, PAPER, WHITE = 110, 217, 245
CELL = 50
"""Minimum pixels of a day's side."""
HEAD = 24
"""Pixels at the top of a day that hold its number."""


def main() -> None:
    """Print the result as JSON."""
    what, path = sys.argv[1:]
    picture = np.asarray(Image.open(path).convert("L"))
    print(json.dumps(words(picture) if what == "words" else days(picture)))


def words(picture: Picture) -> list[dict[str, Any]]:
    """Recognise every word, at any position."""
    lines = tesseract([without_lines(picture)], "--psm", "11", "tsv").splitlines()[1:]
    found = []
    for *_, left, top, width, height, _, text in (line.split("\t") for line in lines):
        if text.strip():
            x, y, wide, high = (int(each) // LARGER for each in (left, top, width, height))
            found.append({"text": text.strip(), "left": x, "top": y, "right": x + wide, "bottom": y + high})
    return found


def days(picture: Picture) -> list[dict[str, Any]]:
    """Find the days of a month. Each recognised number implies which cell is the first; the majority counts."""
    boxes = cells(picture)
    places = {box: place for place, box in enumerate(boxes)}
    votes: Counter[int] = Counter()
    for word in words(picture):
        box = next((box for box in boxes if is_head(word, box)), None)
        if box is not None and re.fullmatch(r"[1-9]\d?", word["text"]):
            votes[places[box] - int(word["text"])] += 1
    if not votes:
        return []
    [(first, _)] = votes.most_common(1)
    texts = read_cells(picture, [box for box in boxes if is_written(picture, box)])
    return [
        {"day": place - first, "x": (box[0] + box[2]) // 2, "y": box[1] + HEAD // 2, "text": texts.get(box, "")}
        for box, place in places.items()
        if 1 <= place - first <= 31
    ]


def cells(picture: Picture) -> list[Box]:
    """Find the cells enclosed by long dark lines, row by row."""
    dark = picture < INK // 2
    across, down = (spans(dark.mean(axis=axis) > 0.6) for axis in (0, 1))
    return [(left, top, right, bottom) for top, bottom in down for left, right in across]


def spans(lines: Picture) -> list[tuple[int, int]]:
    """Return the spans between lines that are wide enough for a day."""
    edges = np.flatnonzero(lines).tolist()
    return [(one + 1, next_one) for one, next_one in zip(edges, edges[1:]) if next_one - one > CELL]  # noqa: B905, RUF007


def is_head(word: dict[str, Any], box: Box) -> bool:
    """Return whether a word is where a day has its number."""
    left, top, right, _ = box
    return bool(left <= word["left"] and word["right"] <= right and top <= word["top"] < top + HEAD)


def is_written(picture: Picture, box: Box) -> bool:
    """Return whether there is text below a day's number."""
    left, top, right, bottom = box
    return bool((picture[top + HEAD + 2 : bottom - 2, left + 1 : right - 1] < INK).any())


def read_cells(picture: Picture, boxes: list[Box]) -> dict[Box, str]:
    """Recognise the text below the numbers of some days."""
    if not boxes:
        return {}
    parts = [picture[top + HEAD + 1 : bottom - 1, left:right] for left, top, right, bottom in boxes]
    pages = tesseract([np.pad(part, 10, constant_values=PAPER) for part in parts], "--psm", "6").split("\f")
    return {box: " ".join(page.split()) for box, page in zip(boxes, pages)}  # noqa: B905 - one empty page follows


def without_lines(picture: Picture) -> Picture:
    """Paint over frames and edges: next to them letters are not recognised."""
    clean = picture.copy()
    for alike in (picture < INK, picture > WHITE):
        clean[runs(alike) | runs(alike.T).T] = PAPER
    return clean


def runs(there: Picture) -> Picture:
    """Return the points in horizontal runs as long as a line."""
    counted = np.cumsum(np.pad(there, ((0, 0), (1, 0))), axis=1)
    whole = counted[:, LINE:] - counted[:, :-LINE] == LINE
    found = np.zeros_like(there)
    for shift in range(LINE):
        found[:, shift : shift + whole.shape[1]] |= whole
    return found


def tesseract(pictures: list[Picture], *options: str) -> str:
    """Run tesseract on pictures, one page each."""
    with tempfile.TemporaryDirectory() as folder:
        names = [str(Path(folder, f"{number}.png")) for number in range(len(pictures))]
        for name, picture in zip(names, pictures):  # noqa: B905
            image = Image.fromarray(picture)
            larger = image.resize((image.width * LARGER, image.height * LARGER), Image.Resampling.LANCZOS)
            larger.save(name, compress_level=1, dpi=(96 * LARGER, 96 * LARGER))
        pages = Path(folder, "pages")
        pages.write_text("\n".join(names))
        argv = ["tesseract", str(pages), "-", *options]
        env = {**os.environ, "OMP_THREAD_LIMIT": "1"}  # with more threads it is slower
        return subprocess.run(argv, env=env, capture_output=True, check=True, text=True).stdout


if __name__ == "__main__":
    main()
