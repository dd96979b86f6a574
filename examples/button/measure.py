"""Measures at the worker's desk how far each button is from its place in its card, in pixels.

python3 measure.py PICTURE
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right, bottom."""

BLUE, FRAME = (0x1F, 0x6F, 0xEB), (0xC9, 0xD2, 0xDD)
LEAST = 30
"""Minimum pixels of a side of a button or card; anything smaller is a letter, or an edge."""


def main() -> None:
    """Print the offset of each button, from the left: to the right, and down."""
    picture = np.asarray(Image.open(sys.argv[1]).convert("RGB"))
    buttons, cards = (boxes((picture == colour).all(axis=2)) for colour in (BLUE, FRAME))
    places = [place(button, cards) for button in buttons]
    [(usual, _)] = Counter(places).most_common(1)
    print(json.dumps([(across - usual[0], down - usual[1]) for across, down in places]))


def place(button: Box, cards: list[Box]) -> tuple[int, int]:
    """Return the position of a button in its card: from the left, and from the top."""
    middle = (button[0] + button[2]) // 2
    card = next(card for card in cards if card[0] <= middle <= card[2])
    return button[0] - card[0], button[1] - card[1]


def boxes(mask: Mask) -> list[Box]:
    """Find the boxes of a colour, from left to right."""
    found = []
    for left, right in spans(np.asarray(mask.any(axis=0))):
        rows = np.flatnonzero(mask[:, left:right].any(axis=1)).tolist()
        if right - left >= LEAST and rows[-1] - rows[0] >= LEAST:
            found.append((left, rows[0], right, rows[-1] + 1))
    return found


def spans(there: Mask) -> list[tuple[int, int]]:
    """Return the first and last index of each run of set points."""
    edges = np.flatnonzero(np.diff(np.pad(there.astype(int), 1))).tolist()
    return list(zip(edges[::2], edges[1::2]))  # noqa: B905 - they come in pairs


if __name__ == "__main__":
    main()
