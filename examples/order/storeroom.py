"""Generate a storeroom from a seed: stock, minimum and price of each article."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

NAMES = (
    "Batteries", "Bulbs", "Cable ties", "Cleaning rags", "Envelopes", "Fuses", "Gloves", "Labels", "Markers",
    "Paper", "Screws", "Tape",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Article:
    """One thing in the storeroom."""

    number: str
    name: str
    there: int
    least: int
    pack: int
    """Pieces that are sold together."""
    cents: int
    """The price of a pack."""

    @property
    def packs(self) -> int:
        """The missing packs."""
        return -(-max(self.least - self.there, 0) // self.pack)


def storeroom(seed: int) -> list[Article]:
    """Generate a storeroom in which three to five articles run low."""
    chance = random.Random(seed)  # noqa: S311 - the same seed gives the same storeroom
    low = set(chance.sample(range(len(NAMES)), chance.randint(3, 5)))
    articles = []
    for place, name in enumerate(NAMES):
        least, pack = chance.randint(20, 90), chance.choice((5, 10, 12, 25))
        there = chance.randint(0, least - 1) if place in low else chance.randint(least, least * 3)
        articles.append(Article(f"A-{101 + place}", name, there, least, pack, chance.randint(150, 4_000)))
    return articles


def compute_order(seed: int) -> dict[str, int]:
    """Return the packs to order, by article: the truth, which no desk gets."""
    return {article.number: article.packs for article in storeroom(seed) if article.packs}


def compute_total(seed: int) -> int:
    """Return the price of that order, in cents."""
    return sum(article.packs * article.cents for article in storeroom(seed))


def write(path: Path, seed: int) -> None:
    """Write the storeroom without its prices, as the worker gets it."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("Article", "Name", "There", "Least"))
        rows.writerows((each.number, each.name, each.there, each.least) for each in storeroom(seed))
