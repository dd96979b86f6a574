"""Write wrong tables that the grader must fail: dozens taken for pieces, reserved ignored, a card missed, and more."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Card = list[Any]


def main() -> None:
    """Write spoilt/VARIANT/reorder.csv."""
    cards = json.loads(Path("hidden/truth.json").read_text())["cards"]
    write("dozens-as-pieces", cards, lambda card: card[3] - card[5])
    write("reserved-ignored", cards, pieces)
    write("discontinued-included", [[*card[:7], "active"] for card in cards], lambda card: pieces(card) - card[5])
    write("level-included", cards, lambda card: pieces(card) - card[5], at_most=True)
    last = max(place for place, card in enumerate(cards) if is_low(card))
    write("last-item-missed", cards[:last], lambda card: pieces(card) - card[5])


def pieces(card: Card) -> int:
    """Return what is on hand in pieces."""
    return int(card[3]) * (12 if card[4] == "dozen" else 1)


def is_low(card: Card) -> bool:
    """Return whether an item must be reordered."""
    return bool(card[7] == "active" and pieces(card) - card[5] < card[6])


def write(name: str, cards: list[Card], free: Callable[[Card], int], at_most: bool = False) -> None:
    """Write the table that follows from a mistake."""
    rows = [
        [card[0], card[1], free(card), card[6] - free(card)]
        for card in cards
        if card[7] == "active" and (free(card) < card[6] or (at_most and free(card) == card[6]))
    ]
    Path("spoilt", name).mkdir(parents=True)
    with Path("spoilt", name, "reorder.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["Item", "Name", "Free", "Missing"], *rows])


if __name__ == "__main__":
    main()
